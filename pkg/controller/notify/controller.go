package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/controller/index"
	"g8s.host/gpu-scheduler/pkg/controller/traced"
)

// Name is the controller's name in logs and metrics.
const Name = "notify"

const (
	// fullRetry is the retry interval after a channel's queue was full.
	fullRetry = time.Minute
	// eventNotTold is the reason of the event on a job whose notification was not delivered.
	eventNotTold = "NotTold"
	// eventTold is the reason of the event on a job whose notification was delivered.
	eventTold = "Told"
)

// noteTimeout bounds all attempts.
const noteTimeout = time.Minute

// noteBackoff is the backoff for annotating a Job while the API server does not accept the write, for a minute.
var noteBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Steps: 9, Cap: 30 * time.Second}

// Reconciler sends notifications about Jobs to channels.
type Reconciler struct {
	Client   client.Client
	Live     client.Reader
	Events   events.EventRecorder
	Clock    clock.Clock
	Notifier *Notifier
	Health   *Health

	directory *Directory
	sender    *Sender
	// life is the context of the leadership.
	life context.Context

	mu sync.Mutex
	// evictions are the evictions being gathered, by Job.
	evictions map[types.NamespacedName]*evicted
}

// SetUp adds the controller to a manager, whose cache has the indexes of package index.
func (r *Reconciler) SetUp(m ctrl.Manager) error {
	r.evictions = map[types.NamespacedName]*evicted{}
	r.directory = &Directory{Live: r.Live, Clock: r.Clock, OnRead: r.Health.PruneChannels}
	r.sender = &Sender{Address: r.directory.ResolveAddress, Post: r.Notifier.Post, OnCall: r.Health.RecordCall, OnSettled: r.recordOutcome, Clock: r.Clock}
	if err := m.Add(manager.RunnableFunc(r.runSender)); err != nil {
		return fmt.Errorf("adding the sender of notifications: %w", err)
	}
	return ctrl.NewControllerManagedBy(m).Named(Name).
		For(&batchv1.Job{}, builder.WithPredicates(predicate.NewPredicateFuncs(wantsNotification))).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(jobOf), builder.WithPredicates(predicate.NewPredicateFuncs(isDisrupted))).
		Complete(traced.NewReconciler(Name, r))
}

// runSender provides the context of the leadership, and waits for the notifications in flight at its end.
func (r *Reconciler) runSender(ctx context.Context) error {
	r.mu.Lock()
	r.life = ctx
	r.mu.Unlock()
	<-ctx.Done()
	r.sender.Close()
	return nil
}

func wantsNotification(object client.Object) bool {
	return object.GetAnnotations()[g8s.AnnotationNotify] != ""
}

func isDisrupted(object client.Object) bool {
	pod, ok := object.(*corev1.Pod)
	return ok && condition.TrueOfPod(pod, corev1.DisruptionTarget) != nil
}

// jobOf returns a request for the Job of a pod.
func jobOf(_ context.Context, object client.Object) []reconcile.Request {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != "Job" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: owner.Name}}}
}

// Reconcile queues the notifications that are due for a Job. It does not wait for receivers.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var job batchv1.Job
	err := r.Client.Get(ctx, request.NamespacedName, &job)
	r.mu.Lock()
	life := r.life
	if err != nil || endReason(&job) != "" {
		delete(r.evictions, request.NamespacedName)
	}
	r.mu.Unlock()
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !wantsNotification(&job) {
		return ctrl.Result{}, nil
	}
	if life == nil {
		return ctrl.Result{RequeueAfter: time.Second}, nil // leadership has just begun
	}
	now := r.Clock.Now()
	if word := dueEnd(&job, now); word != "" {
		return r.offerNotification(life, endNotification(&job, word, now)), nil
	}
	if err := r.noteUndeliverable(ctx, &job); err != nil {
		return ctrl.Result{}, err
	}
	return r.gatherEvictions(ctx, life, &job, now)
}

// noteUndeliverable annotates a running Job whose channel cannot be notified, if there is nothing else to send: its author then does not have to wait for the
// end to know.
func (r *Reconciler) noteUndeliverable(ctx context.Context, job *batchv1.Job) error {
	name, _ := notifySettings(job)
	if endReason(job) != "" || job.Annotations[g8s.AnnotationNotifyFailed] != "" {
		return nil
	}
	_, outcome := r.directory.ResolveAddress(ctx, name, job.Namespace)
	if outcome.Why == "" || outcome.Again {
		return nil
	}
	body, err := patchOf(job.UID, map[string]any{g8s.AnnotationNotifyFailed: outcome.Why})
	if err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, job, client.RawPatch(types.MergePatchType, body)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("noting on job %s that its channel cannot be told: %w", job.Name, err))
	}
	r.Events.Eventf(job, nil, corev1.EventTypeWarning, eventNotTold, "Tell", "channel %s cannot be told how the job ends: %s", name, outcome.Why)
	return nil
}

func (r *Reconciler) offerNotification(life context.Context, letter *Notification) ctrl.Result {
	if r.sender.Enqueue(life, letter) {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: fullRetry}
}

// gatherEvictions collects the evictions of a gang and queues one notification for all of them.
func (r *Reconciler) gatherEvictions(ctx, life context.Context, job *batchv1.Job, now time.Time) (ctrl.Result, error) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(job.Namespace), client.MatchingFields{index.JobUID: string(job.UID)}); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the pods of job %s: %w", job.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(job)
	found := dueEvictions(r.evictions[key], job, pods.Items, now)
	if found == nil {
		delete(r.evictions, key)
		return ctrl.Result{}, nil
	}
	r.evictions[key] = found
	if left := gathering - now.Sub(found.seen); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	result := r.offerNotification(life, evictionNotification(job, found))
	if result.IsZero() {
		delete(r.evictions, key)
	}
	return result, nil
}

// recordOutcome annotates a Job with the outcome of a notification, and records an event. A deleted Job needs neither.
func (r *Reconciler) recordOutcome(ctx context.Context, letter *Notification, outcome Outcome) {
	// The outcome of a delivered notification is recorded even if the leadership ends in the meantime.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	log := ctrl.Log.WithName(Name).WithValues("namespace", letter.Job.Namespace, "job", letter.Job.Name, "channel", letter.Channel, "of", letter.Word)
	if outcome.Why == "" {
		log.V(2).Info("A channel was told of a job")
	} else {
		log.Info("A channel was not told of a job", "why", outcome.Why)
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: letter.Job.Namespace, Name: letter.Job.Name}}
	body, err := outcomePatch(letter, outcome, r.Clock.Now())
	if err != nil {
		log.Error(err, "The note of a notification cannot be written")
		return
	}
	err = wait.ExponentialBackoffWithContext(ctx, noteBackoff, func(ctx context.Context) (bool, error) {
		err := r.Client.Patch(ctx, job, client.RawPatch(types.MergePatchType, body))
		return client.IgnoreNotFound(err) == nil || apierrors.IsConflict(err), nil // another Job has this name now
	})
	if err != nil {
		log.Info("It could not be noted on a job what its channel was told: it may be told again")
	}
	switch {
	case job.UID != letter.UID: // deleted, or never found
	case outcome.Why == "":
		r.Events.Eventf(job, nil, corev1.EventTypeNormal, eventTold, "Tell", "channel %s was told that the job %s", letter.Channel, happened[letter.Word])
	default:
		r.Events.Eventf(job, nil, corev1.EventTypeWarning, eventNotTold, "Tell", "channel %s was not told that the job %s: %s", letter.Channel, happened[letter.Word], outcome.Why)
	}
}

var happened = map[string]string{
	g8s.NotifySucceeded: "succeeded", g8s.NotifyFailed: "failed", g8s.NotifyCancelled: "was cancelled", g8s.NotifyEvicted: "was evicted",
}

// outcomePatch returns the patch of a Job with the outcome of a notification.
func outcomePatch(letter *Notification, outcome Outcome, now time.Time) ([]byte, error) {
	annotations := map[string]any{g8s.AnnotationNotifyFailed: nil}
	if outcome.Why != "" {
		annotations[g8s.AnnotationNotifyFailed] = outcome.Why
	} else {
		annotations[g8s.AnnotationLastNotified] = g8s.NotifiedValue(&metav1.ObjectMeta{UID: letter.UID}, letter.Word, now)
	}
	if letter.Word == g8s.NotifyEvicted {
		annotations[g8s.AnnotationNotifiedEvictions] = letter.Until.UTC().Format(time.RFC3339)
	} else {
		annotations[g8s.AnnotationNotified] = string(letter.UID) + "/" + letter.Word
	}
	return patchOf(letter.UID, annotations)
}

// patchOf returns a patch of annotations for the Job with this UID only.
func patchOf(uid types.UID, annotations map[string]any) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": annotations}})
}
