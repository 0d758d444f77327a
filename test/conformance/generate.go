// Package conformance runs Kubernetes' own tests of its scheduler, test/integration/scheduler of k8s.io/kubernetes, with our plugins, settings
// and wrappers in place of the stock scheduler, and judges what differs (make conformance).
//
// Nothing of those tests is kept here. They are written anew from the module cache into bin/conformance for each run, as a module of their own,
// with one change: where they make a scheduler, package ours makes it. An overlay of go test would do, but none may replace files of the module
// cache.
package conformance

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// Module is what the written module is called.
	Module = "g8s.host/conformance"
	// kubernetes is the module that the tests are from, and tests the folder of its tests.
	kubernetes = "k8s.io/kubernetes/"
	tests      = "test/integration/"
	// suites is the folder that has a suite in each of its folders, and helpers the one that starts schedulers for them.
	suites, helpers = "scheduler", "util"
	// pinned is the module whose libraries the tests are built with: they start an API server in their process, as it does.
	pinned = "test/bench/load/harness"
	// maker is the package that makes schedulers.
	maker = "g8s.host/gpu-scheduler/test/conformance/ours"
)

// makes is where a scheduler is made.
var makes = regexp.MustCompile(`\bscheduler\.New\(`)

// Generate writes the tests of Kubernetes' sources into a folder, with the module file of our own sources, and returns the suites by their folders
// below test/integration/scheduler, "." for that itself. It fails where the tests do not make their schedulers as they did.
func Generate(upstream, root, into string) ([]string, error) {
	if err := os.RemoveAll(into); err != nil {
		return nil, fmt.Errorf("removing the tests of the last run: %w", err)
	}
	var found []string
	made := 0
	for _, tree := range []string{suites, helpers} {
		from := filepath.Join(upstream, tests, tree)
		err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			count, err := generateFile(path, filepath.Join(into, tree, strings.TrimPrefix(path, from)), tree == helpers)
			made += count
			if tree == suites && strings.HasSuffix(path, "_test.go") {
				found = append(found, strings.TrimPrefix(strings.TrimPrefix(filepath.Dir(path), from), "/"))
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("writing the tests of %s: %w", from, err)
		}
	}
	if made == 0 {
		return nil, fmt.Errorf("nothing in %s%s makes a scheduler by scheduler.New any more: find where it is made now", tests, helpers)
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if i := slices.Index(found, ""); i >= 0 {
		found[i] = "."
	}
	return found, generateModule(root, into)
}

// generateFile writes a file of the tests, and returns how many schedulers it makes. Only the helpers may.
func generateFile(from, to string, mayMake bool) (int, error) {
	source, err := os.ReadFile(from)
	if err != nil {
		return 0, err //nolint:wrapcheck // it names the file
	}
	made := len(makes.FindAllIndex(source, -1))
	if made > 0 && !mayMake {
		return 0, fmt.Errorf("%s makes a scheduler itself, which would not be ours", from)
	}
	if source, err = moveImports(from, source); err != nil {
		return 0, err
	}
	if made > 0 {
		source = makes.ReplaceAll(source, []byte("ours.New("))
		begin := []byte("import (\n")
		if strings.Count(string(source), string(begin)) != 1 {
			return 0, fmt.Errorf("%s does not have one list of imports", from)
		}
		source = []byte(strings.Replace(string(source), string(begin), string(begin)+"\t"+strconv.Quote(maker)+"\n", 1))
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return 0, err //nolint:wrapcheck // it names the folder
	}
	return made, os.WriteFile(to, source, 0o600) //nolint:wrapcheck // it names the file
}

// moveImports has a file import the written packages where it imported those that they were written from.
func moveImports(name string, source []byte) ([]byte, error) {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, source, parser.ImportsOnly)
	if err != nil {
		return nil, fmt.Errorf("reading the imports: %w", err)
	}
	for _, spec := range slices.Backward(file.Imports) {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("reading the imports of %s: %w", name, err)
		}
		of, ok := strings.CutPrefix(path, kubernetes+tests)
		if tree, _, _ := strings.Cut(of, "/"); !ok || tree != suites && tree != helpers {
			continue
		}
		begin, end := positions.Position(spec.Path.Pos()).Offset, positions.Position(spec.Path.End()).Offset
		source = slices.Concat(source[:begin], []byte(strconv.Quote(Module+"/"+of)), source[end:])
	}
	return source, nil
}

var (
	moduleLine = regexp.MustCompile(`(?m)^module .*$`)
	ourLine    = regexp.MustCompile(`(?m)^replace g8s\.host/gpu-scheduler => .*$`)
)

// generateModule writes the module file of the tests: that of the benchmark that starts an API server in its process, too.
func generateModule(root, into string) error {
	mod, err := os.ReadFile(filepath.Join(root, pinned, "go.mod"))
	sum, sumErr := os.ReadFile(filepath.Join(root, pinned, "go.sum"))
	if err := errors.Join(err, sumErr); err != nil {
		return fmt.Errorf("reading the versions of libraries: %w", err)
	}
	if len(moduleLine.FindAll(mod, -1)) != 1 || len(ourLine.FindAll(mod, -1)) != 1 {
		return fmt.Errorf("%s/go.mod does not say once what it is called, and once where we are", pinned)
	}
	mod = moduleLine.ReplaceAllLiteral(mod, []byte("module "+Module))
	mod = ourLine.ReplaceAllLiteral(mod, []byte("replace g8s.host/gpu-scheduler => "+root))
	return errors.Join(
		os.WriteFile(filepath.Join(into, "go.mod"), mod, 0o600),
		os.WriteFile(filepath.Join(into, "go.sum"), sum, 0o600))
}
