package server

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // for the page that shows the document
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Paths of the OpenAPI document, of a version for generators that support only OpenAPI 3.0, and of a page for people.
const (
	documentPath   = "/openapi.json"
	document30Path = "/openapi-3.0.json"
	docsPath       = "/docs"
	rootPath       = "/{$}"
)

// documentPaths are public. They describe the API and reveal nothing about the cluster.
var documentPaths = []string{rootPath, documentPath, document30Path, docsPath, Root + documentPath, Root + document30Path, Root + docsPath}

//go:embed assets/docs.html
var docsPage []byte

// docsPolicy lets the page run only its own inline code and connect only to this server.
var docsPolicy = fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	inlineHashes(docsPage, "script"), inlineHashes(docsPage, "style"))

// inlineHashes returns the hashes of a page's inline elements in the syntax of a content security policy.
func inlineHashes(page []byte, element string) string {
	var hashes []string
	for _, part := range bytes.Split(page, []byte("<"+element+">"))[1:] {
		text, _, _ := bytes.Cut(part, []byte("</"+element+">"))
		sum := sha256.Sum256(text)
		hashes = append(hashes, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	return strings.Join(hashes, " ")
}

// addDocument serves the OpenAPI document. It is complete at this point and never changes.
func (s *Server) addDocument(mux *http.ServeMux) error {
	document, err := s.OpenAPIDocument()
	if err != nil {
		return err
	}
	document30, err := s.api.OpenAPI().Downgrade()
	if err != nil {
		return fmt.Errorf("writing the OpenAPI 3.0 document: %w", err)
	}
	root, err := json.Marshal(map[string]string{"message": "GPU Control API", "version": s.options.Version})
	if err != nil {
		return fmt.Errorf("writing the answer of the root: %w", err)
	}
	mux.HandleFunc("GET "+rootPath, serveStatic(jsonType, root))
	for _, prefix := range []string{"", Root} {
		mux.HandleFunc("GET "+prefix+documentPath, serveStatic("application/vnd.oai.openapi+json", document))
		mux.HandleFunc("GET "+prefix+document30Path, serveStatic("application/vnd.oai.openapi+json", document30))
		mux.HandleFunc("GET "+prefix+docsPath, serveStatic("text/html; charset=utf-8", docsPage))
	}
	return nil
}

// OpenAPIDocument returns the OpenAPI 3.1 document of the API, in JSON.
func (s *Server) OpenAPIDocument() ([]byte, error) {
	document, err := json.Marshal(s.api.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("writing the OpenAPI document: %w", err)
	}
	return document, nil
}

func serveStatic(kind string, content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Security-Policy", docsPolicy)
		_, _ = w.Write(content) // the client is gone
	}
}
