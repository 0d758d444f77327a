package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/pflag"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// stayOptions say what create does after it has created the objects.
type stayOptions struct {
	wait, attach bool
	waiter       waiter
}

func (o *stayOptions) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.wait, "wait", false, "Wait until all pods of the jobs run; Ctrl-C ends the waiting, not the jobs")
	flags.BoolVar(&o.attach, "attach", false, "Wait, then print the job's output until it ends, and end with its exit code")
	flags.DurationVar(&o.waiter.timeout, "timeout", 0, "How long to wait, such as 30m; 0 means no limit")
}

// wanted reports whether create waits, and refuses combinations that cannot be waited for.
func (o *stayOptions) wanted(dryRun string, jobs int) (bool, error) {
	switch {
	case !o.wait && !o.attach && o.waiter.timeout == 0:
		return false, nil
	case !o.wait && !o.attach:
		return false, usagef("--timeout needs --wait or --attach")
	case dryRun != dryRunNone:
		return false, usagef("nothing runs in a dry run: leave out --wait and --attach")
	case o.attach && jobs != 1:
		return false, usagef("--attach needs one job, the files have %d", jobs)
	}
	return true, nil
}

// jobsOf returns the creations that are jobs.
func jobsOf(creations []creation) []creation {
	return slices.DeleteFunc(slices.Clone(creations), func(c creation) bool { return c.Job == nil })
}

// stay waits for the created jobs. With --attach it prints the output of the one job.
func (o *stayOptions) stay(ctx context.Context, f *Factory, created []creation) error {
	byNamespace := map[string][]string{}
	var namespaces []string
	for _, c := range jobsOf(created) {
		namespace := c.objects[0].GetNamespace()
		if byNamespace[namespace] == nil {
			namespaces = append(namespaces, namespace)
		}
		byNamespace[namespace] = append(byNamespace[namespace], c.Name)
	}
	for _, namespace := range namespaces {
		if err := o.stayWith(ctx, f, namespace, byNamespace[namespace]); err != nil {
			return err
		}
	}
	return nil
}

func (o *stayOptions) stayWith(ctx context.Context, f *Factory, namespace string, jobs []string) error {
	var err error
	if o.attach {
		err = o.attachTo(ctx, f, namespace, jobs[0])
	} else {
		w := &waiter{factory: f, namespace: namespace, names: jobs, goal: goalReady, timeout: o.waiter.timeout}
		w.reached = func(name, outcome string) { f.IO.tell("%s is %s", name, outcome) }
		err = w.wait(ctx)
	}
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		f.IO.tell("%s", comeBack(jobs, namespace))
		return &quietError{&outcomeError{code: exitNotFinished, text: phrase.Of("detached")}}
	}
	return err
}

// attachTo waits until the job has started, for at most --timeout, and prints its output until it ends.
func (o *stayOptions) attachTo(ctx context.Context, f *Factory, namespace, job string) error {
	w := &waiter{factory: f, namespace: namespace, names: []string{job}, goal: goalRunning, timeout: o.waiter.timeout}
	w.reached = func(string, string) {}
	if err := w.wait(ctx); err != nil {
		return err
	}
	return printUntilEnd(ctx, f, namespace, job)
}

// printUntilEnd prints all output of a job until it ends, and ends with its exit code.
func printUntilEnd(ctx context.Context, f *Factory, namespace, job string) error {
	logs := &logsOptions{factory: f, tail: -1, exitCode: true}
	logs.stream.Job, logs.stream.Namespace, logs.stream.Follow = job, namespace, true
	return logs.run(ctx)
}
