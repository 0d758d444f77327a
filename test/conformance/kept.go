package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// keptSuite is what became of a suite, as a later run that is to go on takes it over.
type keptSuite struct {
	// Program is the digest of the program that ran it, for ours, and the version of Kubernetes for the stock scheduler, of which our code is no part.
	Program string
	Took    time.Duration
	Tests   map[string]Outcome
}

// takeOver adds what became of a suite in an earlier run of the same program, and reports whether there was one.
func (b *Built) takeOver(scheduler, suite string, results Results) bool {
	data, err := os.ReadFile(b.keptPath(scheduler, suite))
	var kept keptSuite
	if err != nil || json.Unmarshal(data, &kept) != nil {
		return false
	}
	if program, err := b.identify(scheduler, suite); err != nil || program != kept.Program {
		return false
	}
	for name, outcome := range kept.Tests {
		results[Test{suite, name}] = outcome
	}
	b.setTook(scheduler+" "+suite, kept.Took)
	return true
}

// keep writes what became of a suite.
func (b *Built) keep(scheduler, suite string, results Results, took time.Duration) error {
	program, err := b.identify(scheduler, suite)
	if err != nil {
		return err
	}
	kept := keptSuite{Program: program, Took: took, Tests: map[string]Outcome{}}
	for test, outcome := range results {
		if test.Suite == suite {
			kept.Tests[test.Name] = outcome
		}
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("keeping what became of %s: %w", suite, err)
	}
	return os.WriteFile(b.keptPath(scheduler, suite), data, 0o600) //nolint:wrapcheck // it names the file
}

func (b *Built) keptPath(scheduler, suite string) string {
	return filepath.Join(b.root, "bin/conformance", scheduler+"-"+strings.ReplaceAll(suite, "/", "-")+".json")
}

// identify says which program runs a suite.
func (b *Built) identify(scheduler, suite string) (string, error) {
	if scheduler == Stock {
		return b.upstream, nil
	}
	file, err := os.Open(b.program(suite))
	if err != nil {
		return "", err //nolint:wrapcheck // it names the file
	}
	defer func() { _ = file.Close() }() // it is only read
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", fmt.Errorf("reading the program of %s: %w", suite, err)
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}
