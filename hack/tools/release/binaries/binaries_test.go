package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// made makes a release of a small project, at a path of its own.
func made(t *testing.T) string {
	t.Helper()
	root, extra, out := t.TempDir(), t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(root, "go.mod"):                "module example.com/project\n\ngo 1.26.0\n",
		filepath.Join(root, "LICENSE"):               "free\n",
		filepath.Join(root, "cmd/gpuctl/main.go"):    "package main\n\nvar version string\n\nfunc main() { println(version) }\n",
		filepath.Join(extra, "man1/gpuctl.1"):        "a page\n",
		filepath.Join(extra, "completions/a/_shell"): "a script\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	o, err := parseOptions([]string{"-root", root, "-extra", extra, "-out", out, "-version", "v1.2.3", "-epoch", "1700000000",
		"-ldflags", "-X main.version=v1.2.3", "-platforms", "linux/amd64,windows/amd64", "-url", "https://example.com/dl/VERSION/"})
	if err != nil {
		t.Fatal(err)
	}
	if err := buildRelease(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return out
}

const (
	linux   = "gpuctl-v1.2.3-linux-amd64.tar.gz"
	windows = "gpuctl-v1.2.3-windows-amd64.zip"
)

func TestARelease(t *testing.T) {
	first, second := made(t), made(t)
	want := []string{"SHA256SUMS", "gpu.yaml", linux, windows, "gpuctl.cdx.json"}
	if got := names(t, first); !slices.Equal(got, want) {
		t.Errorf("a release is %v, want %v", got, want)
	}
	for _, name := range want {
		if string(read(t, first, name)) != string(read(t, second, name)) {
			t.Errorf("%s differs the second time", name)
		}
	}
	files := []string{"LICENSE", "completions/a/_shell", "gpuctl", "man1/gpuctl.1"}
	if got := inTar(t, filepath.Join(first, linux)); !slices.Equal(got, files) {
		t.Errorf("%s has %v", linux, got)
	}
	files[2] = "gpuctl.exe"
	if got := inZip(t, filepath.Join(first, windows)); !slices.Equal(got, files) {
		t.Errorf("%s has %v", windows, got)
	}
	for _, name := range []string{linux, windows} {
		sum := sha256.Sum256(read(t, first, name))
		if line := hex.EncodeToString(sum[:]) + "  " + name + "\n"; !strings.Contains(string(read(t, first, "SHA256SUMS")), line) {
			t.Errorf("the checksums lack %s", line)
		}
	}
}

// TestKrewsManifest holds it to what krew's validation asks: a name, a version with v, one platform a selector, archives with
// a SHA256 sum, files that are in them, and a program among those.
func TestKrewsManifest(t *testing.T) {
	dir := made(t)
	var p plugin
	if err := json.Unmarshal(read(t, dir, "gpu.yaml"), &p); err != nil {
		t.Fatal(err)
	}
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" || p.Metadata["name"] != "gpu" || p.Spec.Version != "v1.2.3" {
		t.Errorf("it is %+v", p)
	}
	if short := p.Spec.ShortDescription; short == "" || len(short) > 50 {
		t.Errorf("krew cuts descriptions of more than 50 characters: %q", short)
	}
	for _, platform := range p.Spec.Platforms {
		name := filepath.Base(platform.URI)
		sum := sha256.Sum256(read(t, dir, name))
		if platform.URI != "https://example.com/dl/v1.2.3/"+name || platform.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s is %s with %s", name, platform.URI, platform.SHA256)
		}
		have := inZip
		if platform.Selector.MatchLabels["os"] != "windows" {
			have = inTar
		}
		for _, file := range platform.Files {
			if !slices.Contains(have(t, filepath.Join(dir, name)), file.From) {
				t.Errorf("%s lacks %s", name, file.From)
			}
		}
		if !slices.ContainsFunc(platform.Files, func(f pluginFile) bool { return f.From == platform.Bin }) {
			t.Errorf("%s is not among its files", platform.Bin)
		}
	}
	if len(p.Spec.Platforms) != 2 {
		t.Errorf("it is for %d platforms", len(p.Spec.Platforms))
	}
}

func TestAVersionIsSemantic(t *testing.T) {
	for version, ok := range map[string]bool{
		"v1.2.3": true, "v0.1.0-rc.1": true, "1.2.3": false, "v1.2": false, "": false, "v01.2.3": false, "abc1234-dirty": false, "v1.2.3 x": false,
	} {
		if _, err := parseOptions([]string{"-version", version}); (err == nil) != ok {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := readFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.name)
	}
	return list
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func inTar(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for r := tar.NewReader(plain); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, header.Name)
		if runs := header.Mode == 0o755; runs != (header.Name == "gpuctl") || header.ModTime.Unix() != 1700000000 {
			t.Errorf("%s has mode %o and is of %s", header.Name, header.Mode, header.ModTime)
		}
	}
}

func inZip(t *testing.T, path string) []string {
	t.Helper()
	r, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var list []string
	for _, f := range r.File {
		list = append(list, f.Name)
	}
	return list
}
