//go:build tools

// Package etcd names the program that is built, for `go mod tidy`.
package etcd

import _ "go.etcd.io/etcd/server/v3"
