package api

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/server"
	"g8s.host/gpu-scheduler/test/bounds"
)

// TestGeneratedClients calls two dozen routes with clients that outside generators make from the document alone.
func TestGeneratedClients(t *testing.T) {
	bounds.SkipInShort(t)
	document, err := filepath.Abs("../../../docs/openapi-3.0.json")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		needs    string // a command without whose success it cannot be tried
		commands []string
	}{
		"go": {needs: "go version", commands: []string{
			"go tool oapi-codegen -generate types,client -package main -o client.gen.go " + document,
			"go build -o generated .",
			"./generated -url $URL -namespace " + team + " -job job.yaml",
		}},
		"typescript": {needs: "npm ping", commands: []string{
			"npm ci --no-audit --no-fund --loglevel=error",
			"npx openapi-typescript " + document + " -o api.ts",
			"npx tsc --strict --noUncheckedIndexedAccess --target es2022 --module nodenext --types node main.ts",
			"node main.js $URL " + team + " job.yaml",
		}},
	}
	for language, tc := range tests {
		t.Run(language, func(t *testing.T) {
			if needs := strings.Fields(tc.needs); exec.CommandContext(t.Context(), needs[0], needs[1:]...).Run() != nil {
				t.Skipf("this machine has none, or no registry: %s fails", tc.needs)
			}
			a := start(t, server.Options{})
			a.Cleanup(func() { a.remove("generated") })
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS("generated/"+language)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "job.yaml"), []byte(training("generated")), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, command := range tc.commands {
				a.runIn(dir, strings.ReplaceAll(command, "$URL", a.URL))
			}
		})
	}
}

// runIn runs a command in a folder, with the token of a member of the team.
func (a *api) runIn(dir, command string) {
	a.Helper()
	words := strings.Fields(command)
	run := exec.CommandContext(a.Context(), words[0], words[1:]...) //nolint:gosec // the commands above
	run.Dir = dir
	run.Env = append(os.Environ(), "TOKEN="+users[member], "CGO_ENABLED=0")
	out, err := run.CombinedOutput()
	if err != nil {
		a.Fatalf("%s: %v\n%s", command, err, out)
	}
	a.Logf("%s\n%s", command, out)
}
