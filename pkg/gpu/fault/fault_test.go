package fault

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/xid.txt")

// TestXIDs writes out the class of each code that drivers know, so that a change of the table is seen.
func TestXIDs(t *testing.T) {
	var got strings.Builder
	for code := uint64(1); code <= 172; code++ {
		fmt.Fprintf(&got, "%d %s\n", code, ClassOf(code))
	}
	const golden = "testdata/xid.txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
}

func TestXidOf(t *testing.T) {
	for word, want := range map[string]uint64{"Xid79": 79, "Xid": 0, "Lost": 0, "Xid-1": 0, "79": 0, XIDWord(119): 119} {
		if code, ok := ParseXID(word); code != want || ok != (want > 0) {
			t.Errorf("%s is XID %d (%v), want %d", word, code, ok, want)
		}
	}
}
