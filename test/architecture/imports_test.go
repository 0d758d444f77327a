// Package architecture keeps the arrows of docs/architecture.md: which part of the tree may reach which.
package architecture

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "g8s.host/gpu-scheduler/"

// rule forbids the packages under tree to import, directly or through others, those under any of forbidden.
type rule struct {
	tree      string
	forbidden []string
	why       string
}

var rules = []rule{
	{"pkg/apis/g8s/...", []string{"k8s.io/client-go", "k8s.io/kubernetes", module + "plugins", module + "cli"},
		"names and API types are imported by everything"},
	{"pkg/apis/config/v1", []string{"k8s.io/client-go", "k8s.io/kubernetes", module + "plugins", module + "cli"},
		"only pkg/apis/config/scheme may know kube-scheduler's scheme"},
	{"pkg/gpu/...", []string{"k8s.io/client-go", "k8s.io/kubernetes", "net/http", module + "plugins", module + "cli"},
		"the core is values in, values out"},
	{"pkg/workload/...", []string{"k8s.io/client-go/kubernetes", "k8s.io/kubernetes", "net/http", module + "plugins", module + "cli"},
		"parsing needs no cluster"},
	{"pkg/render/...", []string{"k8s.io/client-go/kubernetes", "k8s.io/kubernetes", module + "plugins", module + "cli"},
		"rendering needs no cluster"},
	{"pkg/inventory/...", []string{"k8s.io/kubernetes", module + "plugins", module + "cli", module + "pkg/sandbox"},
		"the read model serves CLI, API and console alike"},
	{"cli/...", []string{"k8s.io/kubernetes", module + "plugins", module + "pkg/server", module + "pkg/sandbox"},
		"gpuctl starts in 100 ms and stays small"},
	{"cmd/gpuctl", []string{"k8s.io/kubernetes", module + "plugins", module + "pkg/server"},
		"gpuctl starts in 100 ms and stays small"},
	{"plugins/gpufilter", []string{"k8s.io/kubernetes", module + "plugins/gpuscore", module + "cli", module + "pkg/sandbox"},
		"plugins know the contract, k8s.io/kube-scheduler/framework, and not each other"},
	{"plugins/gpuscore", []string{"k8s.io/kubernetes", module + "plugins/gpufilter", module + "cli", module + "pkg/sandbox"},
		"plugins know the contract, k8s.io/kube-scheduler/framework, and not each other"},
}

func TestImports(t *testing.T) {
	for _, rule := range rules {
		t.Run(rule.tree, func(t *testing.T) {
			for _, pkg := range list(t, rule.tree) {
				for _, dependency := range list(t, "-deps", pkg) {
					for _, forbidden := range rule.forbidden {
						if within(dependency, forbidden) {
							t.Errorf("%s reaches %s: %s", pkg, dependency, rule.why)
						}
					}
				}
			}
		})
	}
}

// TestPackageComments asks every package to say what it is for.
func TestPackageComments(t *testing.T) {
	for _, line := range list(t, "-f", "{{.ImportPath}}\t{{.Doc}}", "./...") {
		pkg, doc, _ := strings.Cut(line, "\t")
		if doc == "" && !strings.Contains(pkg, "/test/") {
			t.Errorf("%s has no package comment", pkg)
		}
	}
}

// within tells whether the import path is the tree's root or under it.
func within(path, tree string) bool {
	return path == tree || strings.HasPrefix(path, tree+"/")
}

// list runs go list in the module's root and returns its lines. A last argument without a dot is a tree of ours.
func list(t *testing.T, args ...string) []string {
	t.Helper()
	last := len(args) - 1
	if !strings.HasPrefix(args[last], ".") && !strings.HasPrefix(args[last], module) {
		args[last] = "./" + args[last]
	}
	command := exec.Command("go", append([]string{"list"}, args...)...)
	command.Dir = "../.."
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go list %s: %v\n%s", strings.Join(args, " "), err, stderrOf(err))
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	if len(lines) == 1 && lines[0] == "" {
		t.Fatalf("go list %s found nothing: is the rule out of date?", strings.Join(args, " "))
	}
	return lines
}

func stderrOf(err error) string {
	if exit, ok := err.(*exec.ExitError); ok {
		return string(exit.Stderr)
	}
	return ""
}
