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
	return replaceBundle(root, filepath.Join(root, "..", "pkg", "server", "console", "dist"))
}

// replaceBundle builds beside the bundle before, and takes its place only when all is written: sources with an error leave the one that is there.
func replaceBundle(root, dist string) error {
	staged := dist + ".new"
	if err := os.RemoveAll(staged); err != nil {
		return fmt.Errorf("removing what was left: %w", err)
	}
	if err := writeBundle(root, staged); err != nil {
		return errors.Join(err, os.RemoveAll(staged))
	}
	if err := os.RemoveAll(dist); err != nil {
		return fmt.Errorf("removing the bundle before: %w", err)
	}
	if err := os.Rename(staged, dist); err != nil {
		return fmt.Errorf("replacing the bundle: %w", err)
	}
	return nil
}

func writeBundle(root, dist string) error {
	names, err := buildAssets(root, dist)
	if err != nil {
		return err
	}
	return errors.Join(writePage(root, dist, names), writeLicenses(root, dist))
}

// licensesName is the file with the licenses of the packages, which ask that their notices go with every copy.
const licensesName = "licenses.txt"

// writeLicenses writes the licenses of all packages into one file.
func writeLicenses(root, dist string) error {
	var text strings.Builder
	for _, p := range packages {
		license, err := os.ReadFile(filepath.Join(root, "node_modules", filepath.FromSlash(p.name), "LICENSE"))
		if err != nil {
			return fmt.Errorf("reading the license of %s: %w", p.name, err)
		}
		fmt.Fprintf(&text, "%s %s\n\n%s\n\n", p.name, p.version, strings.TrimSpace(string(license)))
	}
	if err := os.WriteFile(filepath.Join(dist, licensesName), []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("writing the licenses: %w", err)
	}
	return nil
}

// buildAssets writes the script and the styles, and returns their names, with the hashes of their content in them, by their ends.
func buildAssets(root, dist string) (map[string]string, error) {
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: root, EntryPoints: []string{"src/main.tsx", "src/style.css"}, EntryNames: "[name]-[hash]",
		Outdir: filepath.Join(dist, "assets"), Bundle: true, Write: true, Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsNone,
		Banner:           map[string]string{"js": "/* With preact and @preact/signals, MIT: " + licensesName + " */"},
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
