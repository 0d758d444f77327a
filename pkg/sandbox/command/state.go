package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// state is what the supervisor publishes to the other commands, as JSON in the sandbox's directory.
type state struct {
	// Supervisor is the process id of the owner.
	Supervisor int `json:"supervisor"`
	// Ready is true once `up` has finished.
	Ready bool `json:"ready"`
	// Server is the API server's URL.
	Server string `json:"server"`
	// Kubeconfig is the administrator's.
	Kubeconfig string `json:"kubeconfig"`
	// Ledger is the URL of gpu-ledger, and LedgerCA what its certificate is verified with; empty where there is none.
	Ledger   string `json:"ledger,omitempty"`
	LedgerCA string `json:"ledgerCA,omitempty"`
	// Components are the processes in the order of their start.
	Components []component `json:"components"`
	// HostExec is true if commands in pods run on this machine.
	HostExec bool `json:"hostExec,omitempty"`
}

type component struct {
	Name    string    `json:"name"`
	PID     int       `json:"pid"`
	Port    int       `json:"port,omitempty"`
	Started time.Time `json:"started"`
	Log     string    `json:"log"`
	// Crash describes how it ended, and is empty while it runs.
	Crash string `json:"crash,omitempty"`
}

// describeState reads the state of a sandbox that this process owns.
func describeState(s *sandbox.Sandbox, crashes map[string]string) state {
	st := state{
		Supervisor: os.Getpid(), Ready: true,
		Server: s.RESTConfig().Host, Kubeconfig: s.Kubeconfig(),
	}
	for _, p := range s.Processes() {
		st.Components = append(st.Components, component{
			Name: p.Name(), PID: p.PID(), Port: p.Port(), Started: p.Started(), Log: p.LogPath(), Crash: crashes[p.Name()],
		})
	}
	return st
}

// writeState replaces the state atomically.
func (p *location) writeState(st state) error {
	data, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	temp := p.statePath() + ".new"
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	if err := os.Rename(temp, p.statePath()); err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	return nil
}

// errDown means that no sandbox of the name runs.
var errDown = errors.New("not running")

// readState returns the state of a running sandbox, or an error that wraps [errDown].
func (p *location) readState() (state, error) {
	lock, err := p.acquireLock()
	if err == nil {
		return state{}, errors.Join(fmt.Errorf("sandbox %q is %w: start it with %s", p.name, errDown, p.commandText("up")), p.releaseLock(lock))
	}
	if !errors.Is(err, errLocked) {
		return state{}, err
	}
	data, err := os.ReadFile(p.statePath())
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, fmt.Errorf("sandbox %q is still starting", p.name)
	}
	if err != nil {
		return state{}, fmt.Errorf("reading the state: %w", err)
	}
	var st state
	if err := json.Unmarshal(data, &st); err != nil {
		return state{}, fmt.Errorf("reading the state: %w", err)
	}
	return st, nil
}
