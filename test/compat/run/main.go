// Command run tests against API servers of other versions of Kubernetes, and writes into docs/upgrade.md what became of that:
//
//	make compat COMPAT="1.34 1.36"
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const page = "docs/upgrade.md"

func main() {
	flag.Parse()
	if err := testVersions(context.Background(), flag.Args(), time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// testVersions tests against each version, such as 1.34. It goes on after one that fails.
func testVersions(ctx context.Context, versions []string, at time.Time) error {
	if len(versions) == 0 {
		return errors.New("name the versions of Kubernetes to test against, such as 1.34")
	}
	var failed []error
	for _, version := range versions {
		found, err := testVersion(ctx, version)
		if err == nil {
			err = recordRow(found.row(at))
		}
		if err == nil && len(found.failed) > 0 {
			err = fmt.Errorf("against Kubernetes %s: %s failed", version, strings.Join(found.failed, ", "))
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// testVersion builds the API server and the controllers of a version, and runs the tests against them.
func testVersion(ctx context.Context, version string) (outcome, error) {
	build := exec.CommandContext(ctx, "hack/compat.sh", version)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return outcome{}, fmt.Errorf("building Kubernetes %s: %w", version, err)
	}
	server, err := exec.CommandContext(ctx, filepath.Join("bin", "kubernetes-"+version, "kube-apiserver"), "--version").Output()
	if err != nil {
		return outcome{}, fmt.Errorf("asking the API server of Kubernetes %s for its version: %w", version, err)
	}
	fmt.Fprintf(os.Stderr, "testing against Kubernetes %s\n", version)
	test := exec.CommandContext(ctx, "go", "test", "./test/compat", "-count=1", "-timeout=15m", "-json", "-kubernetes", version)
	var events bytes.Buffer
	test.Stdout, test.Stderr = &events, os.Stderr
	ran := test.Run()
	found, err := readOutcome(&events, os.Stderr)
	found.version = strings.TrimPrefix(strings.TrimSpace(string(server)), "Kubernetes v")
	if err == nil && ran != nil && len(found.failed) == 0 {
		err = fmt.Errorf("testing against Kubernetes %s: %w", version, ran)
	}
	return found, err
}

// recordRow puts the row of a version into the page, in place of an earlier one of the same minor version.
func recordRow(row string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err //nolint:wrapcheck // it names the file
	}
	changed, err := replaceRow(string(text), row)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(changed), 0o644) //nolint:gosec,wrapcheck // a page of the documentation; the error names it
}
