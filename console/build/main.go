// Command build bundles the console: the sources in console/src become pkg/server/console/dist, which gpuctl-server embeds. It needs Go alone. Packages of
// npm are fetched once, by version and digest; with the same sources the bundle is the same, byte for byte.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	if err := bundleConsole(context.Background(), ".."); err != nil {
		fmt.Fprintln(os.Stderr, "bundling the console:", err)
		os.Exit(1)
	}
}

// maxBundle bounds what a browser loads before it shows anything, before compression.
const maxBundle = 400 << 10

// bundleConsole bundles the sources in a folder, which has the packages in node_modules, too.
func bundleConsole(ctx context.Context, folder string) error {
	root, err := filepath.Abs(folder)
	if err != nil {
		return fmt.Errorf("finding the sources: %w", err)
	}
	modules := filepath.Join(root, "node_modules")
	if err := installPackages(ctx, modules); err != nil {
		return err
	}
	dist := filepath.Join(root, "..", "pkg", "server", "console", "dist")
	if err := os.RemoveAll(dist); err != nil {
		return fmt.Errorf("removing the bundle before: %w", err)
	}
	names, err := buildAssets(root, dist)
	if err != nil {
		return err
	}
	return writePage(root, dist, names)
}

// buildAssets writes the script and the styles, and returns their names, with the hashes of their content in them, by their ends.
func buildAssets(root, dist string) (map[string]string, error) {
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: root, EntryPoints: []string{"src/main.tsx", "src/style.css"}, EntryNames: "[name]-[hash]",
		Outdir: filepath.Join(dist, "assets"), Bundle: true, Write: true, Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsNone,
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		Format: api.FormatESModule, Target: api.ES2022, JSX: api.JSXAutomatic, JSXImportSource: "preact", LogLevel: api.LogLevelWarning,
	})
	if len(result.Errors) > 0 {
		return nil, errors.New("the sources have errors, which are shown above")
	}
	names, size := map[string]string{}, 0
	for _, written := range result.OutputFiles {
		names[filepath.Ext(written.Path)] = filepath.Base(written.Path)
		size += len(written.Contents)
	}
	if size > maxBundle {
		return nil, fmt.Errorf("the bundle has %d bytes, more than %d", size, maxBundle)
	}
	return names, nil
}

// writePage writes the page with the names of its files.
func writePage(root, dist string, names map[string]string) error {
	page, err := os.ReadFile(filepath.Join(root, "src", "index.html"))
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	text := strings.NewReplacer("{{script}}", names[".js"], "{{style}}", names[".css"]).Replace(string(page))
	icon, err := os.ReadFile(filepath.Join(root, "src", "icon.svg"))
	if err != nil {
		return fmt.Errorf("reading the icon: %w", err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dist, "index.html"), []byte(text), 0o644),
		os.WriteFile(filepath.Join(dist, "icon.svg"), icon, 0o644),
	)
}
