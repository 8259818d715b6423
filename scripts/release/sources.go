package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"strings"
)

// Markers are the "+name=value" lines of a comment: what reflection cannot see, such as list types and defaults.
type markers map[string][]string

func (m markers) has(name string) bool { return m[name] != nil }

func (m markers) first(name string) string {
	if values := m[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// Sources reads the markers of packages' types, a package at a time.
type sources struct {
	packages map[string]*source
}

type source struct {
	markers   map[string]markers // by "Type" and "Type.Field"
	constants map[string]string  // literals, as written
}

func newSources() *sources { return &sources{packages: map[string]*source{}} }

func (s *sources) markers(path, typeName, field string) markers {
	key := typeName
	if field != "" {
		key += "." + field
	}
	return s.of(path).markers[key]
}

// DefaultOf turns the value of a default marker into JSON; ref(Name) is a constant of the same package.
func (s *sources) defaultOf(path, value string) json.RawMessage {
	if name, ok := strings.CutPrefix(value, "ref("); ok {
		value = s.of(path).constants[strings.TrimSuffix(name, ")")]
	}
	if value == "" {
		return nil
	}
	if !json.Valid([]byte(value)) {
		panic(fmt.Sprintf("default of %s is no JSON: %s", path, value))
	}
	return json.RawMessage(value)
}

func (s *sources) of(path string) *source {
	if known := s.packages[path]; known != nil {
		return known
	}
	folder, err := exec.Command("go", "list", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		panic(fmt.Sprintf("go list %s: %v", path, err))
	}
	notTests := func(info fs.FileInfo) bool { return !strings.HasSuffix(info.Name(), "_test.go") }
	parsed, err := parser.ParseDir(token.NewFileSet(), strings.TrimSpace(string(folder)), notTests, parser.ParseComments)
	if err != nil {
		panic(err)
	}
	found := &source{markers: map[string]markers{}, constants: map[string]string{}}
	for _, pkg := range parsed {
		for _, file := range pkg.Files {
			for _, declaration := range file.Decls {
				if general, ok := declaration.(*ast.GenDecl); ok {
					found.read(general)
				}
			}
		}
	}
	s.packages[path] = found
	return found
}

func (s *source) read(declaration *ast.GenDecl) {
	for _, spec := range declaration.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for i, name := range spec.Names {
				if i < len(spec.Values) {
					if literal, ok := spec.Values[i].(*ast.BasicLit); ok {
						s.constants[name.Name] = literal.Value
					}
				}
			}
		case *ast.TypeSpec:
			s.markers[spec.Name.Name] = marked(declaration.Doc, spec.Doc)
			if of, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range of.Fields.List {
					for _, name := range names(field) {
						s.markers[spec.Name.Name+"."+name] = marked(field.Doc)
					}
				}
			}
		}
	}
}

// Names of a field; an embedded one is called like its type.
func names(field *ast.Field) []string {
	if len(field.Names) > 0 {
		found := make([]string, len(field.Names))
		for i, name := range field.Names {
			found[i] = name.Name
		}
		return found
	}
	of := field.Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	switch of := of.(type) {
	case *ast.SelectorExpr:
		return []string{of.Sel.Name}
	case *ast.Ident:
		return []string{of.Name}
	}
	return nil
}

func marked(groups ...*ast.CommentGroup) markers {
	found := markers{}
	for _, group := range groups {
		if group == nil {
			continue
		}
		for _, comment := range group.List {
			text, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(comment.Text, "//")), "+")
			if !ok {
				continue
			}
			name, value, _ := strings.Cut(text, "=")
			found[strings.TrimSpace(name)] = append(found[strings.TrimSpace(name)], strings.TrimSpace(value))
		}
	}
	return found
}
