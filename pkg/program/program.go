// Package program provides the basics of our long-running programs: signals and exit code, version, connection to the cluster, log.
package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// release is set by the linker: -X g8s.host/gpu-scheduler/pkg/program.release=v1.0.0.
var release string

// coded is an error with an exit code.
type coded struct {
	error
	code int
}

func (c coded) Unwrap() error { return c.error }

// WithExitCode returns an error with which the program exits with a code.
func WithExitCode(code int, err error) error { return coded{err, code} }

// Main runs a command until it ends, or SIGINT or SIGTERM ends its context. It returns the exit code: 0, or after printing an error 1 or the code of
// [WithExitCode].
func Main(cmd *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return CodeOf(err)
	}
	return 0
}

// CodeOf returns the exit code for an error: 0 for none.
func CodeOf(err error) int {
	var own coded
	switch {
	case err == nil:
		return 0
	case errors.As(err, &own):
		return own.code
	}
	return 1
}

// New returns a command without arguments that prints neither its usage nor its error when it fails: [Main] prints the error.
func New(cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.SilenceUsage, cmd.SilenceErrors, cmd.Version = cobra.NoArgs, true, true, Version()
	return cmd
}

// Version returns the version that the Makefile, or else the Go toolchain, recorded in this binary.
func Version() string {
	recorded := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		recorded = info.Main.Version
	}
	return cmp.Or(release, recorded, "unknown")
}

// RESTConfig returns the connection of a program with its own identity, that of its pod if kubeconfig is empty. The user agent is its name and version.
func RESTConfig(kubeconfig, name string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("finding the cluster (outside of it give --kubeconfig): %w", err)
	}
	config.UserAgent = name + "/" + Version()
	return config, nil
}

// UnlimitedConfig is [RESTConfig] without client-go's limit of 5 requests a second: the API server shares its capacity fairly.
func UnlimitedConfig(kubeconfig, name string) (*rest.Config, error) {
	config, err := RESTConfig(kubeconfig, name)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// NewLogger returns a logger in the format of the flag --log-format: json or text.
func NewLogger(format string, out io.Writer) (*slog.Logger, error) {
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(out, nil)), nil
	case "text":
		return slog.New(slog.NewTextHandler(out, nil)), nil
	}
	return nil, fmt.Errorf("--log-format is %q, want json or text", format)
}
