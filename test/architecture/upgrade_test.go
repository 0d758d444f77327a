package architecture

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestThePageSaysWhoImportsKubernetes compares the tables of what an upgrade of Kubernetes touches with the imports of the product, and
// with the files that change what kube-scheduler does.
func TestThePageSaysWhoImportsKubernetes(t *testing.T) {
	var folders, files []string
	for line := range strings.Lines(section(t, "What an upgrade of Kubernetes touches")) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, m := range mentions(cells[1]) {
			if fileOf(m.path) == "" {
				folders = append(folders, m.path)
			} else {
				files = append(files, m.path)
			}
		}
	}
	slices.Sort(folders)
	slices.Sort(files)
	if diff := cmp.Diff(importersOfKubernetes(t), folders); diff != "" {
		t.Errorf("who imports %s (-as it is +docs/architecture.md):\n%s", kubernetes, diff)
	}
	top := slices.DeleteFunc(matching("plugins/*.go"), func(path string) bool { return strings.HasSuffix(path, "_test.go") })
	if diff := cmp.Diff(top, files); diff != "" {
		t.Errorf("the files at the top of plugins/ (-as they are +docs/architecture.md):\n%s", diff)
	}
}

// importersOfKubernetes are the folders of the product that import k8s.io/kubernetes themselves.
func importersOfKubernetes(t *testing.T) (folders []string) {
	t.Helper()
	for _, line := range list(t, "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./cmd/...", "./cli/...", "./pkg/...", "./plugins/...") {
		words := strings.Fields(line)
		if slices.ContainsFunc(words[1:], func(path string) bool {
			_, is := under(path, []string{kubernetes})
			return is
		}) {
			folders = append(folders, filepath.ToSlash(strings.TrimPrefix(words[0], module)))
		}
	}
	return folders
}
