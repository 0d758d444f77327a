package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

var update = flag.Bool("update", false, "write docs/api.md and docs/openapi-3.0.json")

const (
	docsFile     = "../../docs/api.md"
	documentFile = "../../docs/openapi-3.0.json"
)

// TestDocsHaveTheDocument compares docs/openapi-3.0.json, from which clients are generated, with what is served.
func TestDocsHaveTheDocument(t *testing.T) {
	s, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, Options{Version: "v0.1"})
	if err != nil {
		t.Fatal(err)
	}
	served := httptest.NewRecorder()
	s.Handler().ServeHTTP(served, httptest.NewRequest("GET", document30Path, nil))
	var want bytes.Buffer
	if err := json.Indent(&want, served.Body.Bytes(), "", " "); err != nil {
		t.Fatal(err)
	}
	want.WriteByte('\n')
	if *update {
		if err := os.WriteFile(documentFile, want.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(documentFile); err != nil || !bytes.Equal(want.Bytes(), got) {
		t.Errorf("docs/openapi-3.0.json is not what is served (%v): make generate", err)
	}
}

// TestDocsListEveryRoute compares the table of docs/api.md with the document.
func TestDocsListEveryRoute(t *testing.T) {
	s, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), "-update -->\n")
	_, after, found := strings.Cut(rest, "<!-- end of routes -->")
	if !found {
		t.Fatal("the docs have no place for the routes")
	}
	want := before + "-update -->\n" + routesTable(t, s) + "<!-- end of routes -->" + after
	if *update {
		if err := os.WriteFile(docsFile, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Error("docs/api.md is not what the document says: go test ./pkg/server -run Docs -update")
	}
}

func routesTable(t *testing.T, s *Server) string {
	t.Helper()
	document, err := s.OpenAPIDocument()
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Paths map[string]map[string]struct {
			Summary string
			Tags    []string
		}
	}
	if err := json.Unmarshal(document, &parsed); err != nil {
		t.Fatal(err)
	}
	type row struct{ tag, path, method, summary string }
	var rows []row
	for path, item := range parsed.Paths {
		for method, op := range item {
			rows = append(rows, row{op.Tags[0], path, strings.ToUpper(method), op.Summary})
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(strings.Compare(a.tag, b.tag), strings.Compare(a.path, b.path), strings.Compare(a.method, b.method))
	})
	var out strings.Builder
	out.WriteString("| method | path | what it does |\n|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&out, "| %s | `%s` | %s |\n", r.method, r.path, r.summary)
	}
	return out.String()
}

// camelCase is how every key of a request and an answer is spelt, so that no client knows one under two names.
var camelCase = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)

func TestKeysAreSpeltInOneWay(t *testing.T) {
	s, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for name, schema := range s.api.OpenAPI().Components.Schemas.Map() {
		for key := range schema.Properties {
			found++
			if !camelCase.MatchString(key) {
				t.Errorf("key %s of %s is not in camelCase", key, name)
			}
		}
	}
	if found == 0 {
		t.Error("the document has no keys")
	}
}
