package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// bundle is what console/build makes of the sources in console/. The names of all files but the page have a hash of their content in them.
//
//go:embed dist
var bundle embed.FS

const (
	pageName = "index.html"
	// assetFolder has the files whose names change with their content.
	assetFolder = "assets/"
)

// kinds are the types of the files by the ends of their names. The tables of the machine might say something else.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	".txt": "text/plain; charset=utf-8",
}

// contentPolicy lets the page load its own files and talk to its own server. Nothing inline runs, no string becomes code or markup, and no other page may
// frame it.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// file is one file of the page, ready to be sent.
type file struct {
	kind, etag    string
	plain, packed []byte
}

// loadFiles reads the bundle, by paths below [Root]. Requests are answered from this map alone, so that no path leads anywhere else.
func loadFiles(bundle fs.FS) (map[string]file, error) {
	files := map[string]file{}
	err := fs.WalkDir(bundle, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(bundle, name)
		if err != nil {
			return fmt.Errorf("reading the console: %w", err)
		}
		packed, err := compressFile(content)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		files[strings.TrimPrefix(name, "dist/")] = file{
			kind: kinds[path.Ext(name)], etag: `"` + hex.EncodeToString(sum[:8]) + `"`, plain: content, packed: packed,
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the console: %w", err)
	}
	return files, nil
}

func compressFile(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compressing the console: %w", err)
	}
	if _, err := w.Write(content); err != nil {
		return nil, fmt.Errorf("compressing the console: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing the console: %w", err)
	}
	return b.Bytes(), nil
}

// serveFile serves a file of the bundle, and the page itself for every other path: which of its views is shown, the page reads from its address.
func (c *Console) serveFile(w http.ResponseWriter, r *http.Request) {
	setPageHeaders(w.Header())
	name := strings.TrimPrefix(r.URL.Path, Root)
	served, ok := c.files[name]
	switch {
	case ok && strings.HasPrefix(name, assetFolder):
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	case strings.HasPrefix(name, assetFolder):
		c.options.Refuse(w, r, http.StatusNotFound, "NotFound", "the console has no such file: reload the page")
		return
	case !ok:
		served = c.files[pageName]
		fallthrough
	default:
		w.Header().Set("Cache-Control", "no-cache")
	}
	w.Header().Set("Content-Type", served.kind)
	w.Header().Set("ETag", served.etag)
	w.Header().Add("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == served.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content := served.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		content = served.packed
	}
	_, _ = w.Write(content) // the client is gone
}

// setPageHeaders tells browsers how little the page may do, and that no other page may reach into it.
func setPageHeaders(header http.Header) {
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
}
