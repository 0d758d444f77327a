package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"g8s.host/gpu-scheduler/hack/tools/release/build"
)

// spec is one image.
type spec struct {
	// name is the name of the image and of its program.
	name string
	// user is the user that runs it.
	user string
	// beside are programs that it starts.
	beside []string
	// onRequest says that the image is built only on request, and note is a message for that case.
	onRequest bool
	note      string
}

// nonrootUser is the user of all images that do not need root: the one of distroless images, which the manifests also name.
const nonrootUser = "65532:65532"

var specs = []spec{
	{name: "gpu-scheduler", user: nonrootUser},
	// These run the scheduler's code as a separate process to predict placements.
	{name: "gpu-controller", user: nonrootUser, beside: []string{"gpu-scheduler"}},
	{name: "gpuctl-server", user: nonrootUser, beside: []string{"gpu-scheduler"}},
	{name: "gpuctl", user: nonrootUser, beside: []string{"gpu-scheduler"}},
	{name: "gpu-ledger", user: nonrootUser},
	// It opens the device nodes of GPUs and the sockets of the kubelet and the runtime. This image sees no real GPUs when installed, so no values for
	// the chart name it: tests run it.
	{name: "gpu-agent", user: "0:0", onRequest: true,
		note: "without C it knows the cards of a file alone; make image-docker makes the one for real cards, with NVIDIA's library"},
}

// programNames returns all programs of the image, its own first.
func (s *spec) programNames() []string { return append([]string{s.name}, s.beside...) }

const (
	programFolder = "usr/local/bin"
	certificates  = "etc/ssl/certs/ca-certificates.crt" // Go's default path
)

// file is one file of a layer.
type file struct {
	path string
	mode int64
	data []byte
}

// composeImage builds an image for one platform from programs, which are given by their local paths. when is the time of all its content.
func composeImage(s *spec, p build.Platform, programs []string, version string, when time.Time) (v1.Image, error) {
	var files []file
	for _, path := range programs {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err // the error names the file
		}
		files = append(files, file{programFolder + "/" + filepath.Base(path), 0o755, data})
	}
	var layers []mutate.Addendum
	for _, part := range []struct {
		what  string
		files []file
	}{{"certificates and users", systemFiles()}, {"programs", files}} {
		layer, err := buildLayer(part.files, when)
		if err != nil {
			return nil, fmt.Errorf("packing %s: %w", part.what, err)
		}
		layers = append(layers, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: part.what, Created: v1.Time{Time: when}}})
	}
	image, err := mutate.Append(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), layers...)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.OS, p.Arch, v1.Time{Time: when}
	config.Config = v1.Config{
		User: s.user, Entrypoint: []string{"/" + programFolder + "/" + s.name}, Env: []string{"PATH=/" + programFolder},
		WorkingDir: "/", Labels: map[string]string{"org.opencontainers.image.title": s.name, "org.opencontainers.image.version": version},
	}
	return mutate.ConfigFile(image, config)
}

// systemFiles returns the system files that programs expect: trusted certificates, users and groups.
func systemFiles() []file {
	var trusted bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // a file cannot express the constraint, without which the root would be trusted too much
		}
		_ = pem.Encode(&trusted, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // writing to a buffer cannot fail
	}
	return []file{
		{"etc/group", 0o644, []byte("root:x:0:\nnonroot:x:65532:\n")},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{certificates, 0o644, trusted.Bytes()},
	}
}

// buildLayer packs files with their parent folders, reproducibly.
func buildLayer(files []file, when time.Time) (v1.Layer, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	made := map[string]bool{}
	for _, f := range files {
		for _, folder := range parentFolders(f.path) {
			if made[folder] {
				continue
			}
			made[folder] = true
			header := &tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755, ModTime: when, Format: tar.FormatPAX}
			if err := w.WriteHeader(header); err != nil {
				return nil, err
			}
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.data)), ModTime: when, Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
}

// parentFolders returns the parent folders of a path, outermost first.
func parentFolders(path string) []string {
	var folders []string
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		folders = append([]string{dir}, folders...)
	}
	return folders
}
