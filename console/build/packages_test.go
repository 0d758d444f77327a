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

// TestThePageHasNothingInline: the policy of the page would not run it.
func TestThePageHasNothingInline(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "src", "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, inline := range []string{"<style", "style=", "onload=", "javascript:", "<script>"} {
		if strings.Contains(string(page), inline) {
			t.Errorf("the page has %q", inline)
		}
	}
}
