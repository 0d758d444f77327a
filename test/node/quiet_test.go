package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// busyWithOthers is the share of the machine's processors that other programs may take while times are measured that are those of
// a machine which does nothing else. A machine at rest takes about a hundredth.
const busyWithOthers = 0.05

// quietMachine measures what programs take that are not of this test, nor of the cluster and the node that it has started.
type quietMachine struct{ total, busy, own float64 } // seconds of processors

// watchMachine begins to measure.
func watchMachine(t *testing.T) quietMachine {
	t.Helper()
	total, busy, err := processors()
	if err != nil {
		t.Fatal(err)
	}
	own, err := ownSeconds()
	if err != nil {
		t.Fatal(err)
	}
	return quietMachine{total, busy, own}
}

// holds reports whether the machine has done little else since, so that what was measured is held to its bound, or the flag -idle says so.
// Where it is not, it says so loudly.
func (before quietMachine) holds(t *testing.T, what string) bool {
	t.Helper()
	others := before.others(t)
	if *idle || others <= busyWithOthers {
		return true
	}
	text := fmt.Sprintf("*** NOT HELD TO THEIR BOUND: %s, as other programs took %.0f %% of the machine", what, 100*others)
	t.Log(text)
	fmt.Fprintln(os.Stderr, text)
	return false
}

// others is the share of the machine that other programs have taken since.
func (before quietMachine) others(t *testing.T) float64 {
	t.Helper()
	now := watchMachine(t)
	return max(0, (now.busy-before.busy)-(now.own-before.own)) / max(now.total-before.total, 1)
}

// TestAMachineThatDoesSomethingElse is not quiet: programs compute that were started by this test, and are nobody's children by then.
func TestAMachineThatDoesSomethingElse(t *testing.T) {
	quiet := watchMachine(t)
	for range max(1, runtime.NumCPU()/4) {
		if err := exec.CommandContext(t.Context(), "sh", "-c", "timeout 2 sh -c 'while :; do :; done' >/dev/null 2>&1 &").Run(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * time.Second)
	if others := quiet.others(t); others <= busyWithOthers {
		t.Errorf("others took %.1f %% of the machine, want more than %.0f %%", 100*others, 100*busyWithOthers)
	}
}

// processors returns the time of all processors, and that in which they did something or were taken away by the machine's host.
func processors() (total, busy float64, err error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	first, _, _ := strings.Cut(string(data), "\n")
	const idleField, waitField, guests = 3, 4, 8 // what guests take is in the first two as well
	for i, text := range strings.Fields(first)[1:] {
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("reading /proc/stat: %w", err)
		}
		if i >= guests {
			break
		}
		total += value / ticks
		if i != idleField && i != waitField {
			busy += value / ticks
		}
	}
	return total, busy, nil
}

// ownSeconds is what this process has used and all that descend from it, with those of them that have ended and were waited for.
func ownSeconds() (float64, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	parents, used := map[int]int{}, map[int]float64{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(data), ") ") // the name may have blanks
		fields := strings.Fields(rest)
		if parents[pid], err = strconv.Atoi(fields[1]); err != nil {
			return 0, err
		}
		for _, text := range fields[11:15] { // its own, and those of children that it has waited for, as user and in the kernel
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, err
			}
			used[pid] += value / ticks
		}
	}
	sum := 0.0
	for pid := range used {
		for at := pid; at > 1; at = parents[at] {
			if at == os.Getpid() {
				sum += used[pid]
				break
			}
		}
	}
	return sum, nil
}
