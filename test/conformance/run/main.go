// Command run has Kubernetes' own tests of its scheduler run with ours and with the stock one, judges what differs, and writes the page of that:
//
//	make conformance CONFORMANCE="-suites scoring,queueing -schedulers ours"
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"g8s.host/gpu-scheduler/test/conformance"
)

const page = "docs/benchmarks/conformance.md"

func main() {
	suites := flag.String("suites", "", "Suites to run, by their folders below test/integration/scheduler, separated by commas; all of them by default")
	schedulers := flag.String("schedulers", "ours,stock", "Whose scheduler to run them with, separated by commas")
	page := flag.String("page", "", "Page to write of a run with both; by default "+page+" where all suites were run, and none else")
	again := flag.Int("rerun", 1, "How often a test is run again that fails and is no known difference")
	goesOn := flag.Bool("go-on", false, "Take over what became of suites in an earlier run of the same programs, which was stopped")
	flag.Parse()
	rules := conformance.Rules{Again: *again, GoesOn: *goesOn}
	if err := run(context.Background(), list(*suites), list(*schedulers), *page, rules); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func list(text string) []string {
	return strings.FieldsFunc(text, func(letter rune) bool { return letter == ',' })
}

func run(ctx context.Context, suites, schedulers []string, to string, rules conformance.Rules) error {
	root, err := os.Getwd()
	if err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	if rules.Known, err = conformance.Differences(); err != nil {
		return err
	}
	built, err := conformance.Build(ctx, root, suites)
	if err != nil {
		return err
	}
	results, err := runBeside(ctx, built, schedulers, rules)
	if err != nil {
		return err
	}
	if results[conformance.Ours] == nil {
		return nil // there is nothing to compare with
	}
	wrong := conformance.Judge(results[conformance.Ours], results[conformance.Stock], rules.Known)
	if to == "" && len(suites) == 0 {
		to = page
	}
	if to != "" && results[conformance.Stock] != nil {
		text := conformance.Page(conformance.Run{
			Ours: results[conformance.Ours], Stock: results[conformance.Stock], Known: rules.Known, Wrong: wrong,
			Version: version(ctx, root), At: time.Now(), Took: built.Took, Missing: built.Missing,
		})
		if err := os.WriteFile(filepath.Join(root, to), []byte(text), 0o644); err != nil { //nolint:gosec // a page of the documentation
			return err //nolint:wrapcheck // it names the file
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("what differs is not what is known to differ (bin/conformance/*.log has all that was written):\n  %s", strings.Join(wrong, "\n  "))
	}
	return nil
}

// runBeside runs the suites with all schedulers at once: most of the time they wait for what does not happen.
func runBeside(ctx context.Context, built *conformance.Built, schedulers []string, rules conformance.Rules) (map[string]conformance.Results, error) {
	all := make([]conformance.Results, len(schedulers))
	var group errgroup.Group // what one scheduler could not finish does not stop the other
	for i, scheduler := range schedulers {
		group.Go(func() (err error) {
			all[i], err = built.Run(ctx, scheduler, rules)
			return err //nolint:wrapcheck // it says what failed
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err //nolint:wrapcheck // it says what failed
	}
	results := map[string]conformance.Results{}
	for i, scheduler := range schedulers {
		results[scheduler] = all[i]
	}
	return results, nil
}

// version is that of the tests.
func version(ctx context.Context, root string) string {
	ask := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	ask.Dir = root
	out, err := ask.Output()
	if err != nil {
		return "of an unknown version"
	}
	return strings.TrimSpace(string(out))
}
