package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

type logsOptions struct {
	factory  *Factory
	job      string
	follow   bool
	previous bool
	times    bool
	tail     int64
}

func newLogsCmd(f *Factory) *cobra.Command {
	o := &logsOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "logs JOB",
		Short: "Print the output of a job, of all its pods",
		Long: "Print the output of a job, of all its pods; when there are several, each line begins with its pod.\n" +
			"A job that has not started is waited for, and what it waits for is told on standard error.",
		Example: "  gpuctl logs qwen2-sft -f\n  gpuctl logs qwen2-sft --tail 20 --timestamps\n  gpuctl logs qwen2-sft --previous",
		Args:    exactlyOne("the name of one job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.job = strings.TrimPrefix(args[0], "job/")
			return runLogs(cmd.Context(), o)
		},
		ValidArgsFunction: completeJobs(f),
	}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "Print new output as it comes, until the pods end")
	cmd.Flags().BoolVarP(&o.previous, "previous", "p", false, "Print the output of the run before the last restart")
	cmd.Flags().BoolVar(&o.times, "timestamps", false, "Begin each line with its time")
	cmd.Flags().Int64Var(&o.tail, "tail", -1, "Print only this many of the last lines of each pod; -1 is all")
	return cmd
}

func runLogs(ctx context.Context, o *logsOptions) error {
	namespace, err := o.factory.namespace()
	if err != nil {
		return err
	}
	clientset, err := o.factory.kubernetes()
	if err != nil {
		return err
	}
	pods, err := o.waitForStart(ctx, clientset, namespace)
	if err != nil {
		return err
	}
	out := &lineWriter{out: o.factory.IO.Out}
	group, ctx := errgroup.WithContext(ctx)
	for _, pod := range pods {
		prefix := ""
		if len(pods) > 1 {
			prefix = "[" + pod + "] "
		}
		group.Go(func() error {
			if err := o.copyLogs(ctx, clientset.CoreV1().Pods(namespace).GetLogs(pod, o.podOptions()).Stream, out, prefix); err != nil {
				return fmt.Errorf("reading the log of pod %s: %w", pod, err)
			}
			return nil
		})
	}
	err = group.Wait()
	if o.follow && errors.Is(err, context.Canceled) {
		return nil // ending it is how following ends
	}
	return err
}

func (o *logsOptions) podOptions() *corev1.PodLogOptions {
	options := &corev1.PodLogOptions{Follow: o.follow, Previous: o.previous, Timestamps: o.times}
	if o.tail >= 0 {
		options.TailLines = ptr.To(o.tail)
	}
	return options
}

// startPoll is how often a job that has not started is looked at.
const startPoll = time.Second

// waitForStart returns the pods that have output. Each new reason for waiting is told once.
func (o *logsOptions) waitForStart(ctx context.Context, clientset kubernetes.Interface, namespace string) ([]string, error) {
	reader := inventory.NewReader(clientset)
	told := ""
	for {
		jobs, err := reader.Jobs(ctx, inventory.JobQuery{Namespace: namespace, Name: o.job})
		if err != nil {
			return nil, err
		}
		job, err := onlyJob(jobs, namespace, o.job)
		if err != nil {
			return nil, err
		}
		pods := startedPods(job)
		if len(pods) > 0 {
			return pods, nil
		}
		if job.Finished != nil || job.Status == inventory.StatusSuspended {
			return nil, fmt.Errorf("job %s has no output: it is %s (%s)", job.Name, job.Status, reasonOf(job.Trouble))
		}
		if why := reasonOf(job.Trouble); why != told {
			fmt.Fprintf(o.factory.IO.ErrOut, "Waiting for job %s to start. %s\n", job.Name, why)
			told = why
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(startPoll):
		}
	}
}

// onlyJob is the job of a list that was read by name. Two jobs of one name and different kinds exist only where
// someone else than gpuctl made them.
func onlyJob(jobs []inventory.Job, namespace, name string) (inventory.Job, error) {
	switch len(jobs) {
	case 0:
		return inventory.Job{}, &notFoundError{what: fmt.Sprintf("job %q in namespace %s", name, namespace)}
	case 1:
		return jobs[0], nil
	}
	kinds := namesOf(jobs, func(j inventory.Job) string { return j.Kind })
	return inventory.Job{}, fmt.Errorf("%s has several jobs named %q: %s", namespace, name, strings.Join(kinds, ", "))
}

// startedPods are the pods whose container has run, or runs.
func startedPods(job inventory.Job) []string {
	var out []string
	for _, pod := range job.Pods {
		ran := pod.ExitCode != nil || pod.Phase == string(corev1.PodRunning)
		if ran || pod.Phase == string(corev1.PodSucceeded) || pod.Phase == string(corev1.PodFailed) && pod.Node != "" {
			out = append(out, pod.Name)
		}
	}
	slices.Sort(out)
	return out
}

func (o *logsOptions) copyLogs(
	ctx context.Context, open func(context.Context) (io.ReadCloser, error), out *lineWriter, prefix string,
) error {
	stream, err := open(ctx)
	if err != nil {
		return err
	}
	defer stream.Close() //nolint:errcheck // it was only read
	reader := bufio.NewReader(stream)
	for {
		line, err := reader.ReadString('\n')
		if line != "" {
			if err := out.write(prefix + strings.TrimSuffix(line, "\n") + "\n"); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// lineWriter keeps the lines of several pods whole.
type lineWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *lineWriter) write(line string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := io.WriteString(w.out, line)
	return err
}
