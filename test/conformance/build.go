package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"g8s.host/gpu-scheduler/test/conformance/ours"
)

// Whose scheduler tests run with.
const (
	Ours  = "ours"
	Stock = ours.Stock
)

// Built are the programs of some suites.
type Built struct {
	root, module, programs string
	upstream               string // the folder of Kubernetes' sources, which has their version in its name
	suites                 []string
	// Missing are the suites that are not built.
	Missing []string
	// Took is for how long each suite ran, with each scheduler, and how long building them took.
	Took map[string]time.Duration
	mu   sync.Mutex // guards Took
}

// Build writes the tests and builds some suites, all where none is named. What is built is the same for both schedulers.
func Build(ctx context.Context, root string, suites []string) (*Built, error) {
	b := &Built{root: root, module: filepath.Join(root, "bin/conformance/module"), programs: filepath.Join(root, "bin/conformance/programs")}
	b.Took = map[string]time.Duration{}
	find := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	find.Dir = root
	upstream, err := find.Output()
	if err != nil {
		return nil, fmt.Errorf("finding the sources of Kubernetes: %w", err)
	}
	b.upstream = strings.TrimSpace(string(upstream))
	all, err := Generate(b.upstream, root, b.module)
	if err != nil {
		return nil, err
	}
	if b.suites = suites; len(suites) == 0 {
		b.suites = all
	}
	b.Missing = slices.DeleteFunc(slices.Clone(all), func(suite string) bool { return slices.Contains(b.suites, suite) })
	for _, suite := range b.suites {
		if !slices.Contains(all, suite) {
			return nil, fmt.Errorf("there is no suite %s, but %s", suite, strings.Join(all, ", "))
		}
	}
	if err := errors.Join(os.RemoveAll(b.programs), os.MkdirAll(b.programs, 0o755)); err != nil {
		return nil, err //nolint:wrapcheck // it names the folder
	}
	begin := time.Now()
	for i, suite := range b.suites {
		fmt.Fprintf(os.Stderr, "building %d of %d: %s\n", i+1, len(b.suites), suite)
		if err := b.buildSuite(ctx, suite); err != nil {
			return nil, err
		}
	}
	b.Took["build"] = time.Since(begin)
	return b, nil
}

// buildSuite builds the program of a suite. One call of go for all could not: several suites have the same last folder, by which it names them.
func (b *Built) buildSuite(ctx context.Context, suite string) error {
	build := exec.CommandContext(ctx, "go", "test", "-mod=mod", "-c", "-vet=off", "-ldflags=-s -w", "-o", b.program(suite), "./"+filepath.Join("scheduler", suite))
	build.Dir, build.Env = b.module, append(os.Environ(), "CGO_ENABLED=0") // as make tools builds the API server
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the tests of %s: %w\n%s", suite, err, out)
	}
	return nil
}

// program is the path of the program of a suite.
func (b *Built) program(suite string) string {
	name := "scheduler"
	if suite != "." {
		name = strings.ReplaceAll(suite, "/", "-")
	}
	return filepath.Join(b.programs, name+".test")
}

// setTook records for how long something ran.
func (b *Built) setTook(what string, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Took[what] = took
}

// Rules are those of a run.
type Rules struct {
	Known []Difference
	// Again is how often a test is run again that fails and is no known difference.
	Again int
	// GoesOn says that suites are taken over from an earlier run of the same programs.
	GoesOn bool
}

// Run runs the suites, one after the other, with a scheduler.
func (b *Built) Run(ctx context.Context, scheduler string, rules Rules) (Results, error) {
	if scheduler == Stock {
		rules.Known = nil
	}
	log, err := os.Create(filepath.Join(b.root, "bin/conformance", scheduler+".log"))
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	defer func() { _ = log.Close() }() // what is missing of it fails no run
	results := Results{}
	var cutShort []error
	for _, suite := range b.suites {
		if rules.GoesOn && b.takeOver(scheduler, suite, results) {
			continue
		}
		err := b.judgeSuite(ctx, scheduler, suite, rules, results, log)
		switch {
		case errors.Is(err, errCutShort):
			cutShort = append(cutShort, fmt.Errorf("with %s, %w: run it again with -go-on; bin/conformance/%s.log says why", scheduler, err, scheduler))
		case err != nil:
			return nil, err
		}
	}
	return results, errors.Join(cutShort...)
}

// judgeSuite runs a suite, those of its tests again that fail, and keeps what became of it.
func (b *Built) judgeSuite(ctx context.Context, scheduler, suite string, rules Rules, results Results, log io.Writer) error {
	begin := time.Now()
	if err := b.runToItsEnd(ctx, scheduler, suite, "", results, log); err != nil {
		return err
	}
	for range rules.Again {
		failed := unexpected(results, suite, rules.Known)
		if len(failed) == 0 {
			break
		}
		fmt.Fprintf(os.Stderr, "%s, %s: %s once more\n", scheduler, suite, strings.Join(failed, ", "))
		if err := b.runToItsEnd(ctx, scheduler, suite, "^("+strings.Join(failed, "|")+")$", results, log); err != nil {
			return err
		}
	}
	took := time.Since(begin)
	b.setTook(scheduler+" "+suite, took)
	fmt.Fprintf(os.Stderr, "%s, %s: %d passed, %d failed, in %s\n", scheduler, suite,
		results.count(suite, pass, true), results.count(suite, fail, true), took.Round(time.Second))
	return b.keep(scheduler, suite, results, took)
}

// starts is how often a program is started that ends in the middle. One that hangs is started once.
const starts = 3

// runToItsEnd runs a suite, or some of its tests, again where the program ended in the middle: of the tests behind that nothing is known.
func (b *Built) runToItsEnd(ctx context.Context, scheduler, suite, pattern string, results Results, log io.Writer) (err error) {
	for range starts {
		if err = b.runSuite(ctx, scheduler, suite, pattern, results, log); !errors.Is(err, errCutShort) || errors.Is(err, errHung) {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s, %v\n", scheduler, err)
	}
	return err
}

// limit is how long a suite may run.
const limit = "20m"

// runSuite runs a suite, or those of its tests that match a pattern.
func (b *Built) runSuite(ctx context.Context, scheduler, suite, pattern string, results Results, log io.Writer) error {
	folder := filepath.Join(b.module, "scheduler", suite)
	args := []string{"tool", "test2json", b.program(suite), "-test.v=test2json", "-test.timeout=" + limit}
	if pattern != "" {
		args = append(args, "-test.run="+pattern)
	}
	test := exec.CommandContext(ctx, "go", args...)
	test.Dir, test.Stderr = folder, log
	test.Env = append(os.Environ(), ours.Scheduler+"="+scheduler,
		"PATH="+filepath.Join(b.root, "bin/tools")+string(os.PathListSeparator)+os.Getenv("PATH"),
		"KUBE_CACHE_MUTATION_DETECTOR=true", // as Kubernetes runs them: who changes what informers share is found out
	)
	out, err := test.StdoutPipe()
	if err != nil {
		return fmt.Errorf("running %s: %w", suite, err)
	}
	if err := test.Start(); err != nil {
		return fmt.Errorf("running %s: %w", suite, err)
	}
	readErr := results.Read(suite, io.TeeReader(out, log))
	var failed *exec.ExitError
	if err := test.Wait(); err != nil && !errors.As(err, &failed) {
		return fmt.Errorf("running %s: %w", suite, err)
	}
	return readErr
}
