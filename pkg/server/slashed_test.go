package server

import "testing"

func TestWithoutSlash(t *testing.T) {
	tests := map[string]string{
		"/api/v1/nodes/n1/labels/g8s.host/pool":   "/api/v1/nodes/n1/labels/g8s.host%2Fpool",
		"/api/v1/nodes/n1/labels/g8s.host%2Fpool": "",
		"/api/v1/nodes/n1/labels/pool":            "",
		"/api/v1/nodes/n1/labels/":                "",
		"/api/v1/nodes/n1/labels/a/":              "",
		"/api/v1/nodes/n1/labels/../pool":         "",
		"/api/v1/nodes/n1/labels/a/b/c":           "",
		"/api/v1/nodes/n1/pools/a/b":              "",
		"/api/v1/nodes/labels/all/x":              "",
		"/api/v1/jobs/n1/labels/a/b":              "",
	}
	for path, want := range tests {
		if got, ok := escapeKeySlash(path); got != want || ok != (want != "") {
			t.Errorf("%s becomes %q, %v, want %q", path, got, ok, want)
		}
	}
}
