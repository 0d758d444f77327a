package main

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"g8s.host/gpu-scheduler/hack/tools/release/build"
)

// platformImage is an image for one platform.
type platformImage struct {
	platform build.Platform
	image    v1.Image
}

// buildIndex returns one multi-platform image.
func buildIndex(images []platformImage) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: i.image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: i.platform.OS, Architecture: i.platform.Arch}},
		})
	}
	return index
}

// writeArchive writes an OCI archive: a layout as a tar file. containerd and others take its name from the annotations.
func writeArchive(path string, reference name.Tag, index v1.ImageIndex, when time.Time) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".layout-")
	if err != nil {
		return err // the error names the folder
	}
	defer func() { _ = os.RemoveAll(dir) }()
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	annotations := map[string]string{
		"io.containerd.image.name": reference.Name(), "org.opencontainers.image.ref.name": reference.TagStr(),
	}
	if err := at.AppendIndex(index, layout.WithAnnotations(annotations)); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	out, err := os.Create(path + ".new")
	if err != nil {
		return err // the error names the file
	}
	err = packFolder(out, dir, when)
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(path+".new", path)
}

// packFolder writes a folder's files, sorted by name.
func packFolder(out io.Writer, dir string, when time.Time) error {
	w := tar.NewWriter(out)
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: when, Format: tar.FormatPAX}
		if entry.IsDir() {
			return w.WriteHeader(header)
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		header.Typeflag, header.Name, header.Mode, header.Size = tar.TypeReg, name, 0o644, int64(len(data))
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
