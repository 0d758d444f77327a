// Package program is what those of our programs that run for long begin with: signals and exit code, version, connection
// to the cluster, log.
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

// release is what the linker fills in: -X g8s.host/gpu-scheduler/pkg/program.release=v1.0.0.
var release string

// coded is an error with an exit code of its own.
type coded struct {
	error
	code int
}

func (c coded) Unwrap() error { return c.error }

// Exit returns an error that has the program end with a code.
func Exit(code int, err error) error { return coded{err, code} }

// Main runs a command until it ends, or SIGINT or SIGTERM ends its context, and returns the exit code: 0, or after an error was printed
// 1, or that of [Exit].
func Main(cmd *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return CodeOf(err)
	}
	return 0
}

// CodeOf returns the exit code that a program ends with for an error: 0 for none.
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

// New is a command without arguments that prints neither its usage nor its error when it fails: [Main] prints the error.
func New(cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.SilenceUsage, cmd.SilenceErrors, cmd.Version = cobra.NoArgs, true, true, Version()
	return cmd
}

// Version is what the Makefile, or else the Go toolchain, recorded when it built this binary.
func Version() string {
	recorded := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		recorded = info.Main.Version
	}
	return cmp.Or(release, recorded, "unknown")
}

// Config connects a program with its own identity, that of its pod when kubeconfig is empty. The API server knows it by
// its name and version.
func Config(kubeconfig, name string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("finding the cluster (outside of it give --kubeconfig): %w", err)
	}
	config.UserAgent = name + "/" + Version()
	return config, nil
}

// UnlimitedConfig is [Config] without client-go's limit of 5 requests a second: the API server shares its capacity fairly.
func UnlimitedConfig(kubeconfig, name string) (*rest.Config, error) {
	config, err := Config(kubeconfig, name)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// Logger writes in the format of the flag --log-format: json or text.
func Logger(format string, out io.Writer) (*slog.Logger, error) {
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(out, nil)), nil
	case "text":
		return slog.New(slog.NewTextHandler(out, nil)), nil
	}
	return nil, fmt.Errorf("--log-format is %q, want json or text", format)
}
