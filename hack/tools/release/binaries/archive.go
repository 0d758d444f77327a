package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is one file of an archive.
type entry struct {
	name string // with slashes
	mode int64
	data []byte
}

// readFolder reads all files of a folder, with their relative names, in order.
func readFolder(dir string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		entries = append(entries, entry{filepath.ToSlash(name), 0o644, data})
		return err
	})
	return entries, err
}

// writeArchive writes a .zip or a .tar.gz, depending on the name. The same entries give the same bytes.
func writeArchive(file string, entries []entry, when time.Time) error {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	out, err := os.Create(file)
	if err != nil {
		return err // the error names the file
	}
	pack := packTar
	if path.Ext(file) == ".zip" {
		pack = packZip
	}
	return errors.Join(pack(out, entries, when), out.Close())
}

func packTar(out io.Writer, entries []entry, when time.Time) error {
	compressed := gzip.NewWriter(out)
	w := tar.NewWriter(compressed)
	for _, e := range entries {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: when, Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(e.data); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), compressed.Close())
}

func packZip(out io.Writer, entries []entry, when time.Time) error {
	w := zip.NewWriter(out)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: when}
		header.SetMode(os.FileMode(e.mode))
		part, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := part.Write(e.data); err != nil {
			return err
		}
	}
	return w.Close()
}
