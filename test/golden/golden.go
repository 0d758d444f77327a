// Package golden compares what a test got with a file of its testdata, or writes the file with -update.
package golden

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// Update tells whether -update was given, for tests whose files are more than one.
func Update() bool { return *update }

// Compare fails the test where got is not what the file says.
func Compare(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: run the test with -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), run the test with -update to accept it:\n%s", file, diff)
	}
}

// CompareJSON compares a value, as indented JSON.
func CompareJSON(t testing.TB, file string, got any) {
	t.Helper()
	data, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	Compare(t, file, string(data)+"\n")
}
