//go:build !race

// The race detector allocates for itself, in bytes several times what gpuctl does.

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"g8s.host/gpu-scheduler/cli"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// started is what a gpuctl has allocated: until its first command, and for that, by number and bytes.
type started struct {
	Inits, Command, InitBytes, CommandBytes uint64
}

const startAlone = "GPUCTL_TEST_START_ALONE"

// What the start may allocate, up to half as much again as it does. It takes 20 ms of a core; 50 are what a person does not notice.
const (
	mostInits        = 60_000
	mostInitBytes    = 7 << 20
	mostCommand      = 40_000
	mostCommandBytes = 5 << 18
)

// TestTheStartAllocatesLittle: each command waits for what packages do when they are linked in, for all commands to be built, and for
// what is read for that, such as the Chinese catalogue. Time differs from machine to machine; what is allocated does not.
func TestTheStartAllocatesLittle(t *testing.T) {
	if os.Getenv(startAlone) != "" {
		startOnce(t)
		return
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestTheStartAllocatesLittle$")
	command.Env = append(os.Environ(), startAlone+"=1")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("starting gpuctl: %v\n%s", err, out)
	}
	var got started
	if err := json.Unmarshal(out[:len(out)-len("PASS\n")], &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	t.Logf("the start allocates %+v", got)
	if got.Inits > mostInits || got.InitBytes > mostInitBytes {
		t.Errorf("packages allocate %d times, %d bytes, want at most %d and %d: GODEBUG=inittrace=1 gpuctl version --client names them",
			got.Inits, got.InitBytes, mostInits, mostInitBytes)
	}
	if got.Command > mostCommand || got.CommandBytes > mostCommandBytes {
		t.Errorf("a command that needs nothing allocates %d times, %d bytes, want at most %d and %d",
			got.Command, got.CommandBytes, mostCommand, mostCommandBytes)
	}
}

// startOnce runs a command that needs nothing, of a Chinese user, and writes what was allocated.
func startOnce(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	streams, _, _ := cli.TestIOStreams("")
	streams.Language = phrase.Chinese
	code := cli.Run(t.Context(), cli.NewFactory(streams), []string{"gpuctl", "version", "--client"})
	runtime.ReadMemStats(&after)
	if code != 0 {
		t.Fatalf("it ends with %d", code)
	}
	err := json.NewEncoder(os.Stdout).Encode(started{
		Inits: before.Mallocs, InitBytes: before.TotalAlloc,
		Command: after.Mallocs - before.Mallocs, CommandBytes: after.TotalAlloc - before.TotalAlloc,
	})
	if err != nil {
		t.Fatal(err)
	}
}
