package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/cli"
)

func TestEveryCommandHasAPage(t *testing.T) {
	dir := t.TempDir()
	if err := writePages(dir, "2026-11-01", "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	for _, path := range cli.CommandPaths() {
		name := "gpuctl-" + strings.ReplaceAll(path, " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dir, "man1", name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(string(page), "v1.2.3") || !strings.Contains(string(page), "Nov 2026") {
			t.Errorf("%s does not say of when and of which version it is", name)
		}
	}
	for shell, file := range shells {
		script, err := os.ReadFile(filepath.Join(dir, "completions", file))
		if err != nil || !strings.Contains(string(script), "gpuctl") {
			t.Errorf("%s: %v, %d bytes", shell, err, len(script))
		}
	}
}

func TestWrongArguments(t *testing.T) {
	if err := writePages(t.TempDir(), "today", "v1"); err == nil {
		t.Error("a date that is none was taken")
	}
	if err := writePages("", "2026-11-01", "v1"); err == nil {
		t.Error("no folder was taken")
	}
}
