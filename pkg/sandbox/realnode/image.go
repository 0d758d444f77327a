package realnode

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
)

// Images of every real node, both of the program gpu-probe.
const (
	PauseImage = "g8s.host/pause:1"
	ProbeImage = "g8s.host/probe:1"
)

// Image is a container image with one program in it.
type Image struct {
	// Name is the image's, with a tag.
	Name string
	// Binary is the program's path on this machine. In the image it lies in the root folder, under the same name.
	Binary string
	// Args follow the program's name in the entrypoint.
	Args []string
	// Files are what a program needs that is not static, by their path in the image: paths on this machine.
	Files map[string]string
}

// writeImage writes an archive that `ctr images import` reads: one layer that holds one program. The same input gives the
// same bytes.
func writeImage(w io.Writer, image Image, program []byte) error {
	name := path.Base(image.Binary)
	files := []file{{name: name, mode: 0o755, data: program}}
	for _, place := range slices.Sorted(maps.Keys(image.Files)) {
		data, err := os.ReadFile(image.Files[place])
		if err != nil {
			return fmt.Errorf("writing image %s: %w", image.Name, err)
		}
		files = append(files, file{name: strings.TrimPrefix(place, "/"), mode: 0o755, data: data})
	}
	layer, err := buildArchive(files...)
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": append([]string{"/" + name}, image.Args...), "Env": []string{"PATH=/"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + sha256Hex(layer)}},
	})
	if err != nil {
		return fmt.Errorf("writing image %s: %w", image.Name, err)
	}
	configName, layerName := sha256Hex(config)+".json", sha256Hex(layer)+"/layer.tar"
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": configName, "RepoTags": []string{image.Name}, "Layers": []string{layerName},
	}})
	if err != nil {
		return fmt.Errorf("writing image %s: %w", image.Name, err)
	}
	data, err := buildArchive(
		file{name: configName, mode: 0o644, data: config},
		file{name: layerName, mode: 0o644, data: layer},
		file{name: "manifest.json", mode: 0o644, data: manifest},
	)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("writing image %s: %w", image.Name, err)
	}
	return nil
}

type file struct {
	name string
	mode int64
	data []byte
}

func buildArchive(files ...file) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", f.name, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("closing an archive: %w", err)
	}
	return buf.Bytes(), nil
}

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
