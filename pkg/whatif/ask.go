package whatif

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// program is the program that runs the simulation.
const program = "gpu-scheduler"

// ErrNoSimulator says that the program gpu-scheduler was not found.
var ErrNoSimulator = phrase.Errorf("this needs the program %s beside the one you run, or in the PATH: "+
	`"make build" builds both, and the image of the scheduler has it`, program)

// FindSimulator returns the path of the simulator: beside the running program, else in the PATH.
func FindSimulator() (string, error) {
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), program)); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", ErrNoSimulator
	}
	return path, nil
}

// RunSimulator runs a simulation with the program at path. It ends with ctx.
func RunSimulator(ctx context.Context, path string, question *Question) (*Outcome, error) {
	input, err := json.Marshal(question)
	if err != nil {
		return nil, phrase.Errorf("writing what to simulate: %w", err)
	}
	cmd := exec.CommandContext(ctx, path, "simulate", "answer")
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &said
	output, err := cmd.Output()
	if err != nil {
		return nil, phrase.Errorf("simulating with %s: %w: %s", path, err, strings.TrimSpace(said.String()))
	}
	outcome := &Outcome{}
	if err := json.Unmarshal(output, outcome); err != nil {
		return nil, phrase.Errorf("reading what %s says: %w", path, err)
	}
	return outcome, nil
}
