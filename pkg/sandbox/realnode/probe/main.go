package probe

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const usage = `gpu-probe pause [WORD...]
    wait for the end, and for orphans, as the first process of a pod or a node does; the words are for who lists processes
gpu-probe report [flags]
    print what the container was given, as one line of JSON, and stay
`

// Main runs the program and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	switch {
	case len(args) > 0 && args[0] == "pause":
		waitForSignal()
		return 0
	case len(args) > 0 && args[0] == "report":
		code, err := runReport(args[1:], stdout, stderr)
		if err != nil {
			fmt.Fprintln(stderr, "Error:", err)
			return 1
		}
		return code
	default:
		fmt.Fprint(stderr, usage)
		return 2
	}
}

// waitForSignal waits for a signal to end. It adopts and reaps processes whose parents have ended.
func waitForSignal() {
	stop, children := make(chan os.Signal, 1), make(chan os.Signal, 16)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		select {
		case <-stop:
			return
		case <-children:
			for pid := 1; pid > 0; {
				pid, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil) // no child left is an error, and expected
			}
		}
	}
}

// runReport prints what the container sees, and stays for the requested time, or until a signal to end.
func runReport(args []string, stdout, stderr io.Writer) (code int, err error) {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	flags.SetOutput(stderr)
	name := flags.String("name", "", "what the container calls itself")
	to := flags.String("to", "", "folder that gets the report as a file, too")
	lock := flags.String("lock", "", "folder in which to lock the cards; all containers of the node share it")
	stay := flags.Duration("for", 0, "how long to stay; 0 is until SIGTERM")
	exit := flags.Int("exit", 0, "exit code after --for")
	stopped := flags.Int("stopped", 0, "exit code after SIGTERM: of a program that has not done its work, 143")
	first := flags.String("first", "", "file that the first start makes; later ones, which find it, stay until SIGTERM")
	linger := flags.Duration("linger", 0, "how long to stay after SIGTERM")
	if err := flags.Parse(args); err != nil {
		return 2, nil //nolint:nilerror // the flag set has told it
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	seen, err := inspectContainer(*name, os.Environ(), "/dev")
	if err != nil {
		return 1, err
	}
	if *lock != "" {
		if err := seen.lockGPUs(*lock); err != nil {
			return 1, err
		}
	}
	if err := publishReport(seen, *to, stdout); err != nil {
		return 1, err
	}
	again, err := startedBefore(*first)
	if err != nil {
		return 1, err
	}
	var timeout <-chan time.Time
	if *stay > 0 && !again {
		timeout = time.After(*stay)
	}
	select {
	case <-stop:
		time.Sleep(*linger)
		return *stopped, nil
	case <-timeout:
		return *exit, nil
	}
}

// startedBefore creates a file, and reports whether it existed.
func startedBefore(path string) (bool, error) {
	if path == "" {
		return false, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("noting the first start: %w", err)
	}
	return false, f.Close()
}

// publishReport prints a report, and writes it into a new file of a folder. The file appears whole.
func publishReport(r Report, folder string, stdout io.Writer) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	line = append(line, '\n')
	if _, err := stdout.Write(line); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if folder == "" {
		return nil
	}
	f, err := os.CreateTemp(folder, ".report-*")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	_, err = f.Write(line)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(folder, filepath.Base(f.Name())[1:]+".json"))
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
