// Calls methods with encoded messages over grpc-go, as cluster-autoscaler does. Arguments: the address, and for TLS the
// authority's file, then a client's certificate and key. Standard input: one line per call, with path and request in
// hex. Standard output: one line per call, with the status and the response in hex, or the status' text.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// asIs is a codec that does not change messages.
type asIs struct{}

func (asIs) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }

func (asIs) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte{}, data...)
	return nil
}

func (asIs) Name() string { return "proto" }

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func transport(address string, files []string) credentials.TransportCredentials {
	if len(files) == 0 {
		return insecure.NewCredentials()
	}
	host, _, err := net.SplitHostPort(address)
	check(err)
	authority, err := os.ReadFile(files[0])
	check(err)
	settings := &tls.Config{ServerName: host, RootCAs: x509.NewCertPool()}
	settings.RootCAs.AppendCertsFromPEM(authority)
	if len(files) == 3 {
		pair, err := tls.LoadX509KeyPair(files[1], files[2])
		check(err)
		settings.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(settings)
}

func main() {
	address := os.Args[1]
	connection, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(transport(address, os.Args[2:])), grpc.WithDefaultCallOptions(grpc.ForceCodec(asIs{})))
	check(err)
	calls := bufio.NewScanner(os.Stdin)
	calls.Buffer(nil, 1<<24)
	for calls.Scan() {
		path, message, _ := strings.Cut(calls.Text(), " ")
		request, err := hex.DecodeString(message)
		check(err)
		var response []byte
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err = connection.Invoke(ctx, path, &request, &response)
		cancel()
		if err != nil {
			fmt.Println(status.Code(err), status.Convert(err).Message())
			continue
		}
		fmt.Println("OK", hex.EncodeToString(response))
	}
	check(calls.Err())
}
