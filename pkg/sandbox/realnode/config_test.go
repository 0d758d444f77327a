package realnode

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNodesOfOneMachineHaveNetworksOfTheirOwn goes through ports that two nodes can have at the same time.
func TestNodesOfOneMachineHaveNetworksOfTheirOwn(t *testing.T) {
	tests := map[string]struct {
		port int
		want string
	}{
		"the first":              {port: 512 * 70, want: `"subnet":"198.18.0.0/24"`},
		"the last of one half":   {port: 512*70 + 255, want: `"subnet":"198.18.255.0/24"`},
		"the first of the other": {port: 512*70 + 256, want: `"subnet":"198.19.0.0/24"`},
		"the last":               {port: 512*70 + 511, want: `"subnet":"198.19.255.0/24"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := cniConfig(settings{port: tc.port}, "/state")
			if err != nil || !strings.Contains(string(got), tc.want) || !json.Valid(got) {
				t.Errorf("got %s, error %v, want %s", got, err, tc.want)
			}
		})
	}
}

// TestAnImageIsOneLayerWithOneProgram reads an archive as a runtime does.
func TestAnImageIsOneLayerWithOneProgram(t *testing.T) {
	image := Image{Name: "x.test/a:1", Binary: "/somewhere/bin/prog", Args: []string{"run"}}
	var first, second bytes.Buffer
	for _, w := range []io.Writer{&first, &second} {
		if err := writeImage(w, image, []byte("program")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same image has other bytes the second time")
	}
	files := untar(t, first.Bytes())
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil || len(manifest) != 1 || len(manifest[0].Layers) != 1 {
		t.Fatalf("manifest %s: %v", files["manifest.json"], err)
	}
	if diff := cmp.Diff([]string{"x.test/a:1"}, manifest[0].RepoTags); diff != "" {
		t.Error(diff)
	}
	layer := files[manifest[0].Layers[0]]
	if diff := cmp.Diff(map[string][]byte{"prog": []byte("program")}, untar(t, layer)); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
	var config struct {
		Config struct{ Entrypoint []string }
		Rootfs struct {
			IDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(files[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/prog", "run"}, config.Config.Entrypoint); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"sha256:" + sha256Hex(layer)}, config.Rootfs.IDs); diff != "" {
		t.Error(diff)
	}
}

// TestAnImageHasWhatItsProgramIsLinkedWith, and a file that is not there is an error that names it.
func TestAnImageHasWhatItsProgramIsLinkedWith(t *testing.T) {
	library := filepath.Join(t.TempDir(), "libc-2.36.so")
	image := Image{Name: "x.test/a:1", Binary: "/bin/prog", Files: map[string]string{"/lib64/ld.so": library, "/usr/lib/libc.so.6": library}}
	if err := writeImage(io.Discard, image, nil); err == nil || !strings.Contains(err.Error(), "libc-2.36.so") {
		t.Errorf("error %v, want the file that is missing", err)
	}
	if err := os.WriteFile(library, []byte("c"), 0o600); err != nil {
		t.Fatal(err)
	}
	var written bytes.Buffer
	if err := writeImage(&written, image, []byte("program")); err != nil {
		t.Fatal(err)
	}
	for name, data := range untar(t, written.Bytes()) {
		if !strings.HasSuffix(name, "layer.tar") {
			continue
		}
		want := map[string][]byte{"prog": []byte("program"), "lib64/ld.so": []byte("c"), "usr/lib/libc.so.6": []byte("c")}
		if diff := cmp.Diff(want, untar(t, data)); diff != "" {
			t.Errorf("layer (-want +got):\n%s", diff)
		}
	}
}

func untar(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
