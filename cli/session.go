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
	// outcomeTimeout is the outcome timeout of its connection.
	outcomeTimeout time.Duration
}

// deleteTimeout bounds the deletion of the job.
const deleteTimeout = 30 * time.Second

// runSession creates the job of a session, and stays connected to it.
func (o *runOptions) runSession(ctx context.Context, doc submission) error {
	creations, err := o.renderDocuments(ctx, []submission{doc})
	if err != nil {
		return err
	}
	c := creations[0]
	if c.Job.IsGang() || c.Job.Array != nil {
		return usageErrorf("-i connects to one pod: leave out --nodes and --array, or use --attach; nothing was done")
	}
	if err := o.checkCreations(ctx, creations); err != nil {
		return err
	}
	s := &session{factory: o.factory, creation: c, timeout: o.afterCreate.waiter.timeout, outcomeTimeout: containerEndTimeout}
	if s.client, err = o.factory.newKubernetesClient(); err != nil {
		return err
	}
	if s.writer, err = o.factory.newWriter(); err != nil {
		return err
	}
	s.namespace = c.objects[0].GetNamespace()
	if err := s.checkAttachAccess(ctx); err != nil {
		return err
	}
	stop := startProgress(o.factory.IO, phrase.Textf("Creating %s", c))
	err = o.createDocument(ctx, s.writer, c)
	stop()
	if err != nil {
		return err
	}
	s.uid = c.objects[0].GetUID()
	s.printStatus("%s created", c)
	return s.runToEnd(ctx)
}

// checkAttachAccess refuses a session of a user who may not attach, before the job waits for GPUs. If the right cannot be checked, attaching will
// fail instead.
func (s *session) checkAttachAccess(ctx context.Context) error {
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

func (s *session) printStatus(format string, args ...any) {
	s.factory.IO.printErr(format, args...)
}

// runToEnd stays connected to the job until its program ends, and deletes it. If only the connection was lost, the job stays.
func (s *session) runToEnd(ctx context.Context) error {
	signal.Ignore(syscall.SIGPIPE) // otherwise a closed output pipe would kill gpuctl and leave the job
	err := s.attachWhenRunning(ctx)
	switch {
	case isA[*connectionLostError](err):
		return err
	case ctx.Err() == nil && isUnreachable(err) && !isA[*outcomeError](err):
		return &connectionLostError{namespace: s.namespace, job: s.Name, cause: err}
	}
	s.endJob(ctx)
	return err
}

// attachWhenRunning waits for the job, and connects to it. If the program has already ended, it prints the output.
func (s *session) attachWhenRunning(ctx context.Context) error {
	if ended, err := s.waitUntilRunning(ctx); err != nil || ended {
		return err
	}
	job, err := inventory.NewReader(s.client).Job(ctx, s.namespace, s.Name)
	if err != nil {
		return err
	}
	target := &podTarget{factory: s.factory, rank: -1}
	where, err := target.chooseContainer(job)
	if err != nil {
		return followJobLogs(ctx, s.factory, s.namespace, s.Name)
	}
	c, err := target.prepareConnection(ctx, s.client, s.Name, where)
	if err != nil {
		return err
	}
	c.outcomeTimeout = s.outcomeTimeout
	if err := c.printEarlierOutput(ctx); err != nil {
		return err
	}
	c.printPromptHint()
	return c.runUntilEnd(ctx)
}

// waitUntilRunning waits until the job runs. If the job has already failed, it prints the output.
func (s *session) waitUntilRunning(ctx context.Context) (ended bool, err error) {
	w := &waiter{factory: s.factory, namespace: s.namespace, names: []string{s.Name}, goal: goalRunning, timeout: s.timeout}
	w.onReached = func(string, string) {}
	err = w.waitForJobs(ctx)
	var late *timelimit.Error
	var outcome *outcomeError
	switch {
	case errors.As(err, &late):
		return false, &timelimit.Error{After: late.After, What: phrase.Textf("job %s did not run, and is not kept", s.Name)}
	case errors.As(err, &outcome) && outcome.code == exitJobFailed:
		return true, followJobLogs(ctx, s.factory, s.namespace, s.Name)
	}
	return false, err
}

// errReplaced says that another job now has the session's name.
var errReplaced = phrase.Errorf("another job has the name by now")

// endJob deletes the job of the session, also after Ctrl-C, but no other job of its name. A job deleted by others is already gone.
func (s *session) endJob(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	only := s.writer.WithPrecondition(func(object metav1.Object) error {
		if object == nil || object.GetUID() != s.uid {
			return errReplaced
		}
		return nil
	})
	stop := startProgress(s.factory.IO, phrase.Textf("Deleting %s. Another Ctrl-C leaves it", s))
	err := s.deleteWithRetry(ctx, only)
	stop()
	switch {
	case err == nil:
		s.printStatus("%s deleted", s)
	case isNotFound(err):
	case errors.Is(err, errReplaced):
		s.printStatus("%s is left: %v", s, err)
	default:
		s.printStatus("warning: %s is left: %v\nDelete it: gpuctl delete job %s -n %s", s, err, s.Name, s.namespace)
	}
}

// deleteWithRetry deletes the job, and retries on conflicts while the cluster records that its program has ended.
func (s *session) deleteWithRetry(ctx context.Context, only *submit.Client) error {
	for {
		_, err := only.Delete(ctx, s.namespace, s.Name, string(s.Kind))
		if !apierrors.IsConflict(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(endPollInterval):
		}
	}
}
