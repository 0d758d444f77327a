package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

type cpOptions struct{ podTarget }

func newCpCmd(f *Factory) *cobra.Command {
	o := &cpOptions{podTarget{factory: f}}
	cmd := &cobra.Command{
		Use:   "cp {JOB:PATH LOCAL | LOCAL JOB:PATH}",
		Short: "Copy files and directories to and from a container of a job",
		Long: "Copy a file or a directory to or from a container of a job that runs, as cp -r does: into the target if that\n" +
			"is a directory, else under the target's name. The image must have sh and tar. Links are left out, and told.\n" +
			"A local path with a colon is written with ./ before it.",
		Example: "  gpuctl cp qwen2-sft:/outputs/checkpoint-500 .\n" +
			"  gpuctl cp train.py qwen2-sft:/workspace/\n" +
			"  gpuctl cp llama-pretrain:/tmp/trace.json trace-3.json --rank 3",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageErrorf("%s needs what to copy and where to\nSee '%s --help'", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, args []string) error { return runCp(cmd.Context(), o, args[0], args[1]) },
		ValidArgsFunction: completeJobs(f),
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// parseRemotePath parses JOB:PATH. If JOB is not a valid job name, the text is a local path.
func parseRemotePath(text string) (job, file string, ok bool) {
	job, file, ok = strings.Cut(text, ":")
	return job, file, ok && len(validation.IsDNS1123Label(job)) == 0
}

// tarDir returns a directory in the form that tar takes.
func tarDir(dir string) string { return path.Clean(cmp.Or(dir, ".")) }

func runCp(ctx context.Context, o *cpOptions, from, to string) error {
	fromJob, fromPath, download := parseRemotePath(from)
	toJob, toPath, upload := parseRemotePath(to)
	switch {
	case download == upload:
		return usageErrorf("one of %q and %q must be a path of a job, as JOB:PATH, and the other a local one", from, to)
	case download && fromPath == "", upload && toPath == "":
		return usageErrorf("no path follows the colon")
	}
	client, err := o.factory.newKubernetesClient()
	if err != nil {
		return err
	}
	if download {
		return o.downloadPath(ctx, client, fromJob, copySpec{path.Clean(fromPath), to})
	}
	return o.uploadPath(ctx, client, toJob, copySpec{from, toPath})
}

// copySpec is what to copy, and where to.
type copySpec struct{ from, to string }

// uploadPath packs a local path and lets the container's tar unpack it.
func (o *cpOptions) uploadPath(ctx context.Context, client kubernetes.Interface, job string, c copySpec) error {
	if _, err := os.Stat(c.from); err != nil {
		return usageErrorf("reading what to copy: %w", err)
	}
	where, err := o.findContainer(ctx, client, job)
	if err != nil {
		return err
	}
	dir, name := path.Split(path.Clean(c.to))
	into := strings.HasSuffix(c.to, "/")
	if !into {
		var answer bytes.Buffer
		ask := []string{"sh", "-c", `if test -d "$0"; then echo directory; fi`, c.to}
		if err := o.runCopyCommand(ctx, client, where, remoteCommand{command: ask, out: &answer}); err != nil {
			return err
		}
		into = answer.Len() > 0
	}
	if into {
		full, err := filepath.Abs(c.from)
		if err != nil {
			return usageErrorf("reading what to copy: %w", err)
		}
		dir, name = path.Clean(c.to), filepath.Base(full)
	}
	reader, writer := io.Pipe()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		left, err := packTar(writer, c.from, name)
		o.warnSkipped(left)
		return errors.Join(err, writer.CloseWithError(err))
	})
	group.Go(func() error {
		command := []string{"tar", "-xmf", "-", "-C", tarDir(dir)}
		err := o.runCopyCommand(ctx, client, where, remoteCommand{command: command, in: reader, out: io.Discard})
		return errors.Join(err, reader.CloseWithError(err))
	})
	return group.Wait()
}

// downloadPath lets the container's tar pack, and unpacks locally.
func (o *cpOptions) downloadPath(ctx context.Context, client kubernetes.Interface, job string, c copySpec) error {
	where, err := o.findContainer(ctx, client, job)
	if err != nil {
		return err
	}
	dir, base := path.Split(c.from)
	target := c.to
	if info, err := os.Stat(target); err == nil && info.IsDir() {
		target = filepath.Join(target, base)
	}
	reader, writer := io.Pipe()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		command := []string{"tar", "-cf", "-", "-C", tarDir(dir), base}
		err := o.runCopyCommand(ctx, client, where, remoteCommand{command: command, out: writer})
		return errors.Join(err, writer.CloseWithError(err))
	})
	var unpacked error
	group.Go(func() error {
		var left []string
		left, unpacked = unpackTar(reader, base, target)
		o.warnSkipped(left)
		_, _ = io.Copy(io.Discard, reader) // so that tar ends by itself
		return nil
	})
	if err := group.Wait(); err != nil {
		return err // tar's own message explains what it sent
	}
	return unpacked
}

// runCopyCommand runs a command of the copy. If it fails, the error includes what the command wrote to stderr.
func (o *cpOptions) runCopyCommand(ctx context.Context, client kubernetes.Interface, where containerRef, c remoteCommand) error {
	var complaint bytes.Buffer
	c.errOut = &complaint
	err := o.executeCommand(ctx, client, where, c)
	text := strings.TrimSpace(complaint.String())
	var ended *outcomeError
	switch {
	case errors.As(err, &ended): // the exit code is from one of our helper commands, not from the user's program
		why := phrase.Textf("it does not say why")
		if text != "" {
			why = phrase.Quote(text)
		}
		return phrase.Errorf("copying: %s ended with exit code %d: %s", c.command[0], ended.code, why)
	case err != nil && text != "":
		return phrase.Errorf("%w: %s", err, text)
	}
	return err
}

func (o *cpOptions) warnSkipped(left []string) {
	for _, name := range left {
		o.factory.IO.printErr("warning: %s is neither a file nor a directory, and was left out", name)
	}
}
