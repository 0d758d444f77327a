package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"g8s.host/gpu-scheduler/hack/tools/release/bom"
)

const (
	commit = "0123456789012345678901234567890123456789"
	// emptySum is go.sum's of a module without files, and emptyHash the same in hexadecimal.
	emptySum  = "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
	emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// made makes a folder with two files of a release, and what the test itself is made of.
func made(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"gpuctl.tar.gz": "", "g8s.tgz": "a chart", sumsFile: "none yet\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(dir, partsFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(bom.Write(out, "gpuctl", "v1.2.3", cdx.ComponentTypeApplication, self), out.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func flagsFor(dir string) []string {
	return []string{"-dir", dir, "-source", "https://example.com/g8s", "-commit", commit, "-build-type", "https://example.com/g8s/make-release",
		"-builder", "https://example.com/ci", "-ldflags", "-X a=b", "-parameter", "VERSION=v1.2.3", "-parameter", "RELEASE=-platforms linux/amd64"}
}

func TestAStatementSaysWhatWasBuiltOfWhat(t *testing.T) {
	dir := made(t)
	if err := runCommand(flagsFor(dir)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, statementFile))
	if err != nil {
		t.Fatal(err)
	}
	var s statement
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, subject := range s.Subject {
		names = append(names, subject.Name)
	}
	if want := []string{"g8s.tgz", partsFile, "gpuctl.tar.gz"}; !slices.Equal(names, want) {
		t.Errorf("it is of %v, want %v", names, want)
	}
	if got := s.Subject[2].Digest["sha256"]; got != emptyHash {
		t.Errorf("an empty file has %s", got)
	}
	definition := s.Predicate.BuildDefinition
	source := definition.ResolvedDependencies[0]
	if source.Digest["gitCommit"] != commit || source.URI != "git+https://example.com/g8s@"+commit {
		t.Errorf("the source is %+v", source)
	}
	if !slices.ContainsFunc(definition.ResolvedDependencies, func(r resource) bool { return strings.HasPrefix(r.URI, "pkg:golang/stdlib@") }) {
		t.Errorf("the toolchain is not in %+v", definition.ResolvedDependencies)
	}
	if definition.ExternalParameters["RELEASE"] != "-platforms linux/amd64" || definition.InternalParameters["ldflags"] != "-X a=b" {
		t.Errorf("the parameters are %+v and %+v", definition.ExternalParameters, definition.InternalParameters)
	}
	if err := runCommand(flagsFor(dir)); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(filepath.Join(dir, statementFile)); err != nil || string(again) != string(text) {
		t.Errorf("the second time it differs: %v", err)
	}
}

func TestAModuleIsNamedByItsSum(t *testing.T) {
	sum := func(text string) *cdx.Component {
		return &cdx.Component{PackageURL: "pkg:golang/a@v1", Properties: &[]cdx.Property{{Name: "go:sum", Value: text}}}
	}
	got, err := partDependency(sum(emptySum))
	if err != nil || got.Digest["dirHash"] != emptyHash {
		t.Errorf("got %+v, %v, want %s", got, err, emptyHash)
	}
	if _, err := partDependency(sum("h1:?")); err == nil {
		t.Error("a sum that is none is taken")
	}
}

func TestVerifyFindsWhatDiffers(t *testing.T) {
	tests := map[string]struct {
		change func(t *testing.T, dir string) error
		want   string
	}{
		"nothing": {func(*testing.T, string) error { return nil }, ""},
		"the checksums alone": {func(_ *testing.T, dir string) error {
			return os.WriteFile(filepath.Join(dir, sumsFile), nil, 0o600)
		}, ""},
		"a file":         {func(_ *testing.T, dir string) error { return os.WriteFile(filepath.Join(dir, "g8s.tgz"), nil, 0o600) }, "g8s.tgz has the SHA256"},
		"one more file":  {func(_ *testing.T, dir string) error { return os.WriteFile(filepath.Join(dir, "more"), nil, 0o600) }, "says nothing of more"},
		"a file is gone": {func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, "g8s.tgz")) }, "g8s.tgz is not there"},
		"no statement":   {func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, statementFile)) }, statementFile},
		"another's words": {func(_ *testing.T, dir string) error {
			return os.WriteFile(filepath.Join(dir, statementFile), []byte("{}"), 0o600)
		}, "want a"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := made(t)
			if err := runCommand(flagsFor(dir)); err != nil {
				t.Fatal(err)
			}
			if err := tc.change(t, dir); err != nil {
				t.Fatal(err)
			}
			err := runCommand([]string{"-dir", dir, "-verify"})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestAFactThatIsMissingIsNamed(t *testing.T) {
	for _, tc := range []struct{ flag, value, want string }{
		{"-commit", "0123456", "want all of its digits"}, {"-source", "", "-source is not given"}, {"-builder", "", "-builder is not given"},
		{"-parameter", "VERSION", "want NAME=VALUE"}, {"-dir", "/nowhere", "/nowhere"},
	} {
		if err := runCommand(append(flagsFor(made(t)), tc.flag, tc.value)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %q: got %v, want %q", tc.flag, tc.value, err, tc.want)
		}
	}
}
