package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/pflag"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// createWaitOptions say what create does after it has created the objects.
type createWaitOptions struct {
	wait, attach bool
	waiter       waiter
}

func (o *createWaitOptions) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.wait, "wait", false, "Wait until all pods of the jobs run; Ctrl-C ends the waiting, not the jobs")
	flags.BoolVar(&o.attach, "attach", false, "Wait, then print the job's output until it ends, and end with its exit code")
	flags.DurationVar(&o.waiter.timeout, "timeout", 0, "How long to wait, such as 30m; 0 means no limit")
}

// shouldWait reports whether create waits, and refuses combinations that cannot be waited for.
func (o *createWaitOptions) shouldWait(dryRun string, jobs int) (bool, error) {
	switch {
	case !o.wait && !o.attach && o.waiter.timeout == 0:
		return false, nil
	case !o.wait && !o.attach:
		return false, usageErrorf("--timeout needs --wait or --attach")
	case dryRun != dryRunNone:
		return false, usageErrorf("nothing runs in a dry run: leave out --wait and --attach")
	case o.attach && jobs != 1:
		return false, usageErrorf("--attach needs one job, the files have %d", jobs)
	}
	return true, nil
}

// jobCreations returns the creations that are jobs.
func jobCreations(creations []creation) []creation {
	return slices.DeleteFunc(slices.Clone(creations), func(c creation) bool { return c.Job == nil })
}

// waitForJobs waits for the created jobs. With --attach it prints the output of the one job.
func (o *createWaitOptions) waitForJobs(ctx context.Context, f *Factory, created []creation) error {
	byNamespace := map[string][]string{}
	var namespaces []string
	for _, c := range jobCreations(created) {
		namespace := c.objects[0].GetNamespace()
		if byNamespace[namespace] == nil {
			namespaces = append(namespaces, namespace)
		}
		byNamespace[namespace] = append(byNamespace[namespace], c.Name)
	}
	for _, namespace := range namespaces {
		if err := o.waitInNamespace(ctx, f, namespace, byNamespace[namespace]); err != nil {
			return err
		}
	}
	return nil
}

func (o *createWaitOptions) waitInNamespace(ctx context.Context, f *Factory, namespace string, jobs []string) error {
	var err error
	if o.attach {
		err = o.attachToJob(ctx, f, namespace, jobs[0])
	} else {
		w := &waiter{factory: f, namespace: namespace, names: jobs, goal: goalReady, timeout: o.waiter.timeout}
		w.onReached = func(name, outcome string) { f.IO.printErr("%s is %s", name, outcome) }
		err = w.waitForJobs(ctx)
	}
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		f.IO.printErr("%s", comeBackText(jobs, namespace))
		return &quietError{&outcomeError{code: exitNotFinished, text: phrase.Textf("detached")}}
	}
	return err
}

// attachToJob waits until the job has started, for at most --timeout, and prints its output until it ends.
func (o *createWaitOptions) attachToJob(ctx context.Context, f *Factory, namespace, job string) error {
	w := &waiter{factory: f, namespace: namespace, names: []string{job}, goal: goalRunning, timeout: o.waiter.timeout}
	w.onReached = func(string, string) {}
	if err := w.waitForJobs(ctx); err != nil {
		return err
	}
	return followJobLogs(ctx, f, namespace, job)
}

// followJobLogs prints all output of a job until it ends, and ends with its exit code.
func followJobLogs(ctx context.Context, f *Factory, namespace, job string) error {
	logs := &logsOptions{factory: f, tail: -1, exitCode: true}
	logs.stream.Job, logs.stream.Namespace, logs.stream.Follow = job, namespace, true
	return logs.printLogs(ctx)
}
