package main

import (
	"archive/tar"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"g8s.host/gpu-scheduler/hack/tools/release/build"
)

// project is a small one, at a path of its own: with the programs gpu-ledger and gpu-scheduler.
func project(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{"go.mod": "module example.com/project\n\ngo 1.26.0\n"}
	for _, program := range []string{"gpu-ledger", "gpu-controller", "gpu-scheduler"} {
		files["cmd/"+program+"/main.go"] = "package main\n\nfunc main() { panic(\"" + program + "\") }\n"
	}
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func made(t *testing.T, args ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	o, err := parseOptions(append([]string{"-root", project(t), "-out", dir, "-version", "v1.2.3", "-epoch", "1700000000"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	if err := buildImages(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTheSameSourceGivesTheSameBytes wherever it lies, and wherever they are written.
func TestTheSameSourceGivesTheSameBytes(t *testing.T) {
	first, second := made(t, "gpu-ledger", "gpu-controller"), made(t, "gpu-ledger", "gpu-controller")
	for _, file := range []string{"gpu-ledger.tar", "gpu-controller.tar", "gpu-ledger.cdx.json", "values.yaml"} {
		a, err := os.ReadFile(filepath.Join(first, file))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second, file))
		if err != nil {
			t.Fatal(err)
		}
		if string(a) != string(b) || len(a) == 0 {
			t.Errorf("%s differs: %d and %d bytes", file, len(a), len(b))
		}
	}
}

// TestAnImageRunsItsProgramAsNobody on both platforms, with what it starts beside it, and nothing that a shell could use.
func TestAnImageRunsItsProgramAsNobody(t *testing.T) {
	index, manifest := opened(t, filepath.Join(made(t, "gpu-controller"), "gpu-controller.tar"))
	if got := manifest.Annotations["io.containerd.image.name"]; got != "registry.example.com/g8s/gpu-controller:v1.2.3" {
		t.Errorf("containerd would name it %q", got)
	}
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, descriptor := range list.Manifests {
		platforms = append(platforms, descriptor.Platform.String())
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.OS != "linux" || config.Architecture != descriptor.Platform.Architecture {
			t.Errorf("%s is for %s/%s", descriptor.Platform, config.OS, config.Architecture)
		}
		if got := config.Config; got.User != "65532:65532" || !slices.Equal(got.Entrypoint, []string{"/usr/local/bin/gpu-controller"}) {
			t.Errorf("%s runs %v as %q", descriptor.Platform, got.Entrypoint, got.User)
		}
		if config.Created.Unix() != 1700000000 {
			t.Errorf("%s was made at %s", descriptor.Platform, config.Created)
		}
		checkFiles(t, image)
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("it is for %v", platforms)
	}
}

func checkFiles(t *testing.T, image v1.Image) {
	t.Helper()
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	modes := map[string]int64{}
	r := tar.NewReader(content)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			modes[header.Name] = header.Mode
		}
		if header.Uid != 0 || header.ModTime.Unix() != 1700000000 {
			t.Errorf("%s is of user %d at %s", header.Name, header.Uid, header.ModTime)
		}
		if header.Name == certificates {
			data, err := io.ReadAll(r)
			if pool := x509.NewCertPool(); err != nil || !pool.AppendCertsFromPEM(data) {
				t.Errorf("Go reads none of the certificates: %v", err)
			}
		}
	}
	want := map[string]int64{
		"etc/group": 0o644, "etc/passwd": 0o644, certificates: 0o644,
		"usr/local/bin/gpu-controller": 0o755, "usr/local/bin/gpu-scheduler": 0o755,
	}
	for name, mode := range want {
		if modes[name] != mode {
			t.Errorf("%s has mode %o, want %o", name, modes[name], mode)
		}
		delete(modes, name)
	}
	if len(modes) > 0 {
		t.Errorf("there is more in it: %v", modes)
	}
}

// opened reads an archive as a container runtime does.
func opened(t *testing.T, archive string) (v1.ImageIndex, v1.Descriptor) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	dir := t.TempDir()
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, data, fs.FileMode(header.Mode))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("the archive has %v, %v", manifest, err)
	}
	index, err := all.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index, manifest.Manifests[0]
}

// TestAPushedImageIsTheArchives: what was tested is what is pulled.
func TestAPushedImageIsTheArchives(t *testing.T) {
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	dir := made(t, "-registry", host+"/g8s", "-push", "gpu-ledger")
	_, archived := opened(t, filepath.Join(dir, "gpu-ledger.tar"))
	reference, err := name.ParseReference(host + "/g8s/gpu-ledger:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Get(reference)
	if err != nil {
		t.Fatal(err)
	}
	if pulled.Digest != archived.Digest {
		t.Errorf("the registry has %s, the archive %s", pulled.Digest, archived.Digest)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("there is more than the archive, what is in it and the values: %v, %v", entries, err)
	}
	values, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil || !strings.Contains(string(values), "ledger:\n  image: {digest: \""+archived.Digest.String()+"\"}\n") {
		t.Errorf("the chart's values: %v\n%s", err, values)
	}
	server.Close()
	o, err := parseOptions([]string{"-root", project(t), "-out", t.TempDir(), "-registry", host + "/g8s", "-push", "-platforms", "linux/amd64", "gpu-ledger"})
	if err != nil {
		t.Fatal(err)
	}
	if err := buildImages(t.Context(), o); err == nil || !strings.Contains(err.Error(), "sending") {
		t.Errorf("without a registry: %v", err)
	}
}

func TestWhatAnImageIsMadeOf(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(made(t, "gpu-ledger"), "gpu-ledger.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		BOMFormat string
		Metadata  struct {
			Component struct{ Name, Version, Type string }
		}
		Components []struct{ Name, PURL string }
	}
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	if c := document.Metadata.Component; document.BOMFormat != "CycloneDX" || c.Name != "gpu-ledger" || c.Version != "v1.2.3" || c.Type != "container" {
		t.Errorf("it is of %+v", document)
	}
	if len(document.Components) != 1 || !strings.HasPrefix(document.Components[0].PURL, "pkg:golang/stdlib@1.") {
		t.Errorf("it is made of %+v, want Go's library alone", document.Components)
	}
}

func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{{"-platforms", "linux"}, {"-platforms", "linux/"}, {"gpu-leger"}, {"-epoch", "now"}} {
		if _, err := parseOptions(args); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
	o, err := parseOptions([]string{"-root", project(t), "-out", t.TempDir(), "-platforms", "linux/z80", "gpu-ledger"})
	if err != nil {
		t.Fatal(err)
	}
	if err := buildImages(t.Context(), o); err == nil || !strings.Contains(err.Error(), "building gpu-ledger for linux/z80") {
		t.Errorf("got error %v", err)
	}
}

// TestEveryImageHasItsPlace: the chart installs by digest what is made here, and nothing runs as root but the agent.
func TestEveryImageHasItsPlace(t *testing.T) {
	for i := range specs {
		s := &specs[i]
		if (s.user != nonrootUser) != (s.name == "gpu-agent") {
			t.Errorf("%s runs as %s", s.name, s.user)
		}
		if _, err := os.Stat(filepath.Join("../../../..", "cmd", s.name)); err != nil {
			t.Error(err)
		}
		if _, is := components[s.name]; is != (s.name != "gpuctl" && s.name != "gpu-agent") {
			t.Errorf("%s is in the values of the chart: %v", s.name, is)
		}
	}
	all, err := parseOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.images {
		if all.images[i].name == "gpu-agent" {
			t.Error("an agent that sees no real card is made though nobody asked for it")
		}
	}
	if one, err := parseOptions([]string{"gpu-agent"}); err != nil || len(one.images) != 1 {
		t.Errorf("asked for by name: %v", err)
	}
	if _, err := build.ParsePlatform("linux/arm64"); err != nil {
		t.Error(err)
	}
}
