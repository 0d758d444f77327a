// Package cli is gpuctl: one file per verb, such as get.go, with its parts beside it, such as get_jobs.go. A command is an options struct, a
// constructor and a run function.
//
// Standard output is data, standard error is for messages. Commands return errors; [Main] prints them and decides the exit code, once. What a command
// shows comes from pkg/inventory; what it writes goes through pkg/submit.
package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Main runs gpuctl with the process' arguments, the program's name first, and returns its exit code.
func Main(args []string, streams IOStreams) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once

	klog.SetLogger(logr.Discard()) // what a user must know is returned as an error
	klog.SetOutput(io.Discard)
	ctrllog.SetLogger(logr.Discard())
	return Run(ctx, NewFactory(streams), args)
}

// Run runs gpuctl with what the factory gives it.
func Run(ctx context.Context, f *Factory, args []string) int {
	root := newRootCmd(f, programName(args[0]))
	setProgramName(f, root, programName(args[0]))
	root.SetArgs(splitTypes(root, args[1:]))
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.As(err, new(*quietError)) {
		f.printError(errorMessage(err).Add(f.suggestObject(ctx, err)))
	}
	return exitCode(err)
}

// splitTypes reads kubectl's TYPE/NAME after get and describe: "get pool/a pool/b" is "get pool a b". Kinds of jobs count as types as well.
func splitTypes(root *cobra.Command, args []string) []string {
	at := slices.IndexFunc(args, func(arg string) bool {
		return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == arg || c.HasAlias(arg) })
	})
	if at < 0 || args[at] != "get" && args[at] != "describe" {
		return args
	}
	named := false
	out := slices.Clone(args[:at+1])
	for _, arg := range args[at+1:] {
		word, name, _ := strings.Cut(arg, "/")
		isKind := findShownKind(word) != "" && !slices.Contains(typeWords, word)
		if !isKind && !slices.Contains(typeWords, word) || name == "" {
			named = named || slices.Contains(typeWords, arg)
			out = append(out, arg)
			continue
		}
		if isKind {
			word = "job"
		}
		if !named {
			out = append(out, word)
		}
		named = true
		out = append(out, name)
	}
	return out
}

// typeWords are the words allowed before the slash.
var typeWords = []string{
	"job", "jobs", "pool", "pools", "node", "nodes", "quota", "quotas", "gpuquota", "gpuquotas", "namespace", "namespaces", "ns", "reservation", "reservations",
}

// programName returns what the user typed: gpuctl, or kubectl gpu when kubectl runs gpuctl as its plugin.
func programName(path string) string {
	if name := strings.TrimSuffix(filepath.Base(path), ".exe"); name == "kubectl-gpu" {
		return "kubectl gpu"
	}
	return "gpuctl"
}
