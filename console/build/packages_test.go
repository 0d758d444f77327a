package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnotherPackageIsRefused: what the registry answers is used only if it is what was chosen.
func TestAnotherPackageIsRefused(t *testing.T) {
	err := checkIntegrity(packages[0], []byte("another"))
	if err == nil || !strings.Contains(err.Error(), packages[0].name) {
		t.Errorf("got %v, want an error that names %s", err, packages[0].name)
	}
}

// sources are those of a small page with its packages.
func sources(t *testing.T, script string) (root string) {
	t.Helper()
	root = t.TempDir()
	files := map[string]string{"src/main.tsx": script, "src/style.css": "p { color: red }", "src/index.html": "{{script}} {{style}}", "src/icon.svg": "<svg/>"}
	for _, p := range packages {
		files["node_modules/"+p.name+"/LICENSE"] = "license of " + p.name
	}
	for name, text := range files {
		if err := writeFile(filepath.Join(root, filepath.FromSlash(name)), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestABundleIsReplacedWhole: sources with an error leave the bundle that is there, and another one takes its place with the licenses of its packages.
func TestABundleIsReplacedWhole(t *testing.T) {
	dist := filepath.Join(t.TempDir(), "dist")
	before := filepath.Join(dist, "before")
	if err := writeFile(before, strings.NewReader("before")); err != nil {
		t.Fatal(err)
	}
	if err := replaceBundle(sources(t, "const = 1"), dist); err == nil {
		t.Fatal("sources with an error are bundled")
	}
	if _, err := os.Stat(before); err != nil {
		t.Errorf("the bundle before is gone: %v", err)
	}
	if err := replaceBundle(sources(t, "console.log(1)"), dist); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(before); err == nil {
		t.Error("a file of the bundle before is left")
	}
	licenses, err := os.ReadFile(filepath.Join(dist, licensesName))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		if !strings.Contains(string(licenses), "license of "+p.name) {
			t.Errorf("the license of %s is not with the bundle", p.name)
		}
	}
}
