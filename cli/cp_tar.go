package cli

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// tarRecordSize is the size of tar's records. If an archive is a whole number of records, tar ends with the archive and needs no end of input.
const tarRecordSize = 20 * 512

// countingWriter counts the bytes written.
type countingWriter struct {
	out     io.Writer
	written int64
}

func (c *countingWriter) Write(data []byte) (int, error) {
	n, err := c.out.Write(data)
	c.written += int64(n)
	return n, err
}

// packTar writes a local file or directory as a tar archive under the given name. It returns the paths that are neither files nor directories.
func packTar(out io.Writer, from, name string) (left []string, err error) {
	counted := &countingWriter{out: out}
	archive := tar.NewWriter(counted)
	err = filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && file == from { // a link on the command line is followed, as cp does
			info, err = os.Stat(file)
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() && !info.IsDir() {
			left = append(left, file)
			return nil
		}
		inner, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		return packEntry(archive, file, info, path.Join(name, filepath.ToSlash(inner)))
	})
	if err != nil {
		return left, phrase.Errorf("packing %s: %w", from, err)
	}
	if err := archive.Close(); err != nil {
		return left, err
	}
	if rest := counted.written % tarRecordSize; rest > 0 {
		_, err = out.Write(make([]byte, tarRecordSize-rest))
	}
	return left, err
}

func packEntry(archive *tar.Writer, file string, info fs.FileInfo, name string) error {
	header, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	header.Name = name
	header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", "" // the container has its own users
	if err := archive.WriteHeader(header); err != nil || info.IsDir() {
		return err
	}
	content, err := os.Open(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	return errors.Join(err, content.Close())
}

// unpackTar reads a tar archive whose root is base, and writes it as target. It never writes outside the target, whatever the archive contains. It
// returns the entries that are neither files nor directories.
func unpackTar(in io.Reader, base, target string) (left []string, err error) {
	parent, name := filepath.Split(filepath.Clean(target))
	root, err := os.OpenRoot(filepath.Clean(parent))
	if err != nil {
		return nil, usageErrorf("opening where to copy to: %w", err)
	}
	defer root.Close() //nolint:errcheck // only a directory handle
	archive := tar.NewReader(in)
	for found := false; ; found = true {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF) && !found:
			return left, phrase.Errorf("the container's tar sent nothing")
		case errors.Is(err, io.EOF):
			return left, nil
		case err != nil:
			return left, phrase.Errorf("reading what the container's tar sends: %w", err)
		}
		inner, inside := strings.CutPrefix(path.Clean(header.Name), base)
		if !inside || inner != "" && inner[0] != '/' || !filepath.IsLocal(filepath.FromSlash(name+inner)) {
			return left, phrase.Errorf("the container's tar sends %q, which is not part of %s", header.Name, base)
		}
		switch header.Typeflag {
		case tar.TypeReg, tar.TypeDir:
			if err := unpackEntry(root, filepath.FromSlash(name+inner), header, archive); err != nil {
				return left, phrase.Errorf("unpacking %s: %w", header.Name, err)
			}
		default:
			left = append(left, header.Name)
		}
	}
}

func unpackEntry(root *os.Root, name string, header *tar.Header, content io.Reader) error {
	mode := header.FileInfo().Mode().Perm()
	if header.Typeflag == tar.TypeDir {
		return root.MkdirAll(name, mode|0o700)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
