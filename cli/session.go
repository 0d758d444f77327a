package cli

import (
	"context"
	"errors"
	"os/signal"
	"syscall"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/timelimit"
)

// session is a job to which the user is connected from its start. It is deleted when its program ends or the user gives up.
type session struct {
	factory *Factory
	client  kubernetes.Interface
	writer  *submit.Client
	creation
	namespace string
	uid       types.UID
	// timeout is how long the job may wait for its GPUs; 0 is no limit.
	timeout time.Duration
	// patience is the outcome timeout of its connection.
	patience time.Duration
}

// endTimeout bounds the deletion of the job.
const endTimeout = 30 * time.Second

// runSession creates the job of a session, and stays connected to it.
func (o *runOptions) runSession(ctx context.Context, doc submission) error {
	creations, err := o.render(ctx, []submission{doc})
	if err != nil {
		return err
	}
	c := creations[0]
	if c.Job.IsGang() || c.Job.Array != nil {
		return usagef("-i connects to one pod: leave out --nodes and --array, or use --attach; nothing was done")
	}
	if err := o.check(ctx, creations); err != nil {
		return err
	}
	s := &session{factory: o.factory, creation: c, timeout: o.stay.waiter.timeout, patience: endPatience}
	if s.client, err = o.factory.kubernetes(); err != nil {
		return err
	}
	if s.writer, err = o.factory.writer(); err != nil {
		return err
	}
	s.namespace = c.objects[0].GetNamespace()
	if err := s.checkRight(ctx); err != nil {
		return err
	}
	stop := startProgress(o.factory.IO, phrase.Of("Creating %s", c))
	err = o.createOne(ctx, s.writer, c)
	stop()
	if err != nil {
		return err
	}
	s.uid = c.objects[0].GetUID()
	s.say("%s created", c)
	return s.run(ctx)
}

// checkRight refuses a session of a user who may not attach, before the job waits for GPUs. If the right cannot be checked, attaching will
// fail instead.
func (s *session) checkRight(ctx context.Context) error {
	asked := &authorizationv1.ResourceAttributes{Namespace: s.namespace, Verb: "create", Resource: "pods", Subresource: "attach"}
	review, err := s.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: asked},
	}, metav1.CreateOptions{})
	if err != nil || review.Status.Allowed {
		return nil //nolint:nilerr // attaching will report it
	}
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods/attach"}, s.Name,
		phrase.Errorf("you may not attach to pods in namespace %s; nothing was created", s.namespace))
}

func (s *session) say(format string, args ...any) {
	s.factory.IO.tell(format, args...)
}

// run stays connected to the job until its program ends, and deletes it. If only the connection was lost, the job stays.
func (s *session) run(ctx context.Context) error {
	signal.Ignore(syscall.SIGPIPE) // otherwise a closed output pipe would kill gpuctl and leave the job
	err := s.follow(ctx)
	switch {
	case isA[*lostError](err):
		return err
	case ctx.Err() == nil && isUnreachable(err) && !isA[*outcomeError](err):
		return &lostError{namespace: s.namespace, job: s.Name, cause: err}
	}
	s.end(ctx)
	return err
}

// follow waits for the job, and connects to it. If the program has already ended, it prints the output.
func (s *session) follow(ctx context.Context) error {
	if ended, err := s.await(ctx); err != nil || ended {
		return err
	}
	job, err := inventory.NewReader(s.client).Job(ctx, s.namespace, s.Name)
	if err != nil {
		return err
	}
	target := &podTarget{factory: s.factory, rank: -1}
	where, err := target.choose(job)
	if err != nil {
		return printUntilEnd(ctx, s.factory, s.namespace, s.Name)
	}
	c, err := target.connect(ctx, s.client, s.Name, where)
	if err != nil {
		return err
	}
	c.patience = s.patience
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	c.greet()
	return c.run(ctx)
}

// await waits until the job runs. If the job has already failed, it prints the output.
func (s *session) await(ctx context.Context) (ended bool, err error) {
	w := &waiter{factory: s.factory, namespace: s.namespace, names: []string{s.Name}, goal: goalRunning, timeout: s.timeout}
	w.reached = func(string, string) {}
	err = w.wait(ctx)
	var late *timelimit.Error
	var outcome *outcomeError
	switch {
	case errors.As(err, &late):
		return false, &timelimit.Error{After: late.After, What: phrase.Of("job %s did not run, and is not kept", s.Name)}
	case errors.As(err, &outcome) && outcome.code == exitJobFailed:
		return true, printUntilEnd(ctx, s.factory, s.namespace, s.Name)
	}
	return false, err
}

// errReplaced says that another job now has the session's name.
var errReplaced = phrase.Errorf("another job has the name by now")

// end deletes the job of the session, also after Ctrl-C, but no other job of its name. A job deleted by others is already gone.
func (s *session) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	only := s.writer.If(func(object metav1.Object) error {
		if object == nil || object.GetUID() != s.uid {
			return errReplaced
		}
		return nil
	})
	stop := startProgress(s.factory.IO, phrase.Of("Deleting %s. Another Ctrl-C leaves it", s))
	err := s.delete(ctx, only)
	stop()
	switch {
	case err == nil:
		s.say("%s deleted", s)
	case isNotFound(err):
	case errors.Is(err, errReplaced):
		s.say("%s is left: %v", s, err)
	default:
		s.say("warning: %s is left: %v\nDelete it: gpuctl delete job %s -n %s", s, err, s.Name, s.namespace)
	}
}

// delete deletes the job, and retries on conflicts while the cluster records that its program has ended.
func (s *session) delete(ctx context.Context, only *submit.Client) error {
	for {
		_, err := only.Delete(ctx, s.namespace, s.Name, string(s.Kind))
		if !apierrors.IsConflict(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(endPoll):
		}
	}
}
