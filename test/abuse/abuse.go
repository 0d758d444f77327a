// Package abuse says how hard its sub-packages try the programs with what hostile users can do.
package abuse

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// All tells whether every round is run, on a machine that does nothing else: `make abuse`, by ABUSE=all. As a part of all
// tests a slice of them is.
func All() bool { return os.Getenv("ABUSE") == "all" }

// OthersWait is how long the pods of those who have done nothing wrong may wait. As a part of all tests it is far from what
// the other programs of the machine make of it, and from what a hostile user would.
func OthersWait() time.Duration {
	if All() {
		return 2 * time.Second
	}
	return 8 * time.Second
}

// CPUTime is how long a process has had a core. It tells what it does from what else the machine does, the attack included.
func CPUTime(t testing.TB, process int) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ") // behind the name
	fields := strings.Fields(rest)
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		t.Fatal(err)
	}
	system, err := strconv.Atoi(fields[12])
	if err != nil {
		t.Fatal(err)
	}
	const tick = 10 * time.Millisecond // of all Linux on amd64 and arm64
	return time.Duration(user+system) * tick
}
