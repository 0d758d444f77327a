package gpudevices

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/apiserver/pkg/util/webhook"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/backpressure"
)

var (
	errLost    = errors.New("EOF")
	errDown    = errors.New("connect: connection refused")
	podBinding = schema.GroupResource{Resource: "pods/binding"}
	errDenied  = apierrors.NewForbidden(podBinding, "p", errors.New("denied"))
	errTaken   = apierrors.NewConflict(podBinding, "p", errors.New("pod p is already assigned to node"))
	errBroken  = apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	errWebhook = apierrors.NewInternalError(&webhook.ErrCallingWebhook{WebhookName: "w", Reason: errDown})
	errVetoed  = webhookerrors.ToStatusErr("w", &metav1.Status{Code: http.StatusServiceUnavailable, Message: "later"})
	errGone    = apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")
	errBusy    = apierrors.NewTooManyRequests("later", 0)
)

// apiServer answers as a script says. The last line of a script goes on forever.
type apiServer struct {
	posts, gets []reply
	posted      int
	pod         *corev1.Pod
}

// reply is an answer, and what the request does to the pod before it.
type reply struct {
	err   error
	store func(*apiServer, *corev1.Binding)
}

func take(script []reply) (reply, []reply) {
	if len(script) > 1 {
		return script[0], script[1:]
	}
	return script[0], script
}

func (s *apiServer) serve(b *bed) {
	b.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		var now reply
		now, s.posts = take(s.posts)
		s.posted++
		if now.store != nil {
			now.store(s, action.(clienttesting.CreateAction).GetObject().(*corev1.Binding))
		}
		return true, nil, now.err
	})
	b.client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		now := reply{}
		if len(s.gets) > 0 {
			now, s.gets = take(s.gets)
		}
		if now.err != nil {
			return true, nil, now.err
		}
		return true, s.pod, nil
	})
}

// asAsked is what a Binding does to its pod.
func asAsked(s *apiServer, binding *corev1.Binding) {
	s.pod = s.pod.DeepCopy()
	s.pod.Spec.NodeName, s.pod.Annotations = binding.Target.Name, binding.Annotations
}

func becomes(change func(*corev1.Pod)) func(*apiServer, *corev1.Binding) {
	return func(s *apiServer, _ *corev1.Binding) {
		s.pod = s.pod.DeepCopy()
		change(s.pod)
	}
}

// TestABindingOfWhichNobodyTold: it may be stored. To take the cards back before that is known would give them twice.
func TestABindingOfWhichNobodyTold(t *testing.T) {
	deleted := becomes(func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) })
	elsewhere := becomes(func(p *corev1.Pod) { p.Spec.NodeName = "n" })
	another := becomes(func(p *corev1.Pod) { p.UID = "q" })
	tests := map[string]struct {
		posts, gets []reply
		want        error
		atLeast     time.Duration // that the cards stay taken
		atMost      time.Duration
	}{
		"it is stored, and the API server restarts": {
			posts: []reply{{errLost, asAsked}, {errDown, nil}, {errDown, nil}, {errTaken, nil}},
			gets:  []reply{{err: errDown}, {err: errDown}, {err: errDown}, {}}, atMost: time.Second,
		},
		"it is not stored, and is when it is posted again": {
			posts: []reply{{errLost, nil}, {errDown, nil}, {nil, asAsked}}, atMost: time.Second,
		},
		"it is stored a moment later":                   {posts: []reply{{errLost, nil}, {errTaken, asAsked}}, atMost: time.Second},
		"the server fails, and does not":                {posts: []reply{{errBroken, nil}, {nil, asAsked}}, atMost: time.Second},
		"a conflict with an earlier request of ours":    {posts: []reply{{errTaken, asAsked}}},
		"another bound the pod, to other GPUs":          {posts: []reply{{errTaken, elsewhere}}, want: errTaken},
		"the answer is lost, and another bound the pod": {posts: []reply{{errLost, elsewhere}}, want: errLost},
		"the pod is being deleted":                      {posts: []reply{{errTaken, deleted}}, want: errTaken},
		"the pod is gone":                               {posts: []reply{{errGone, nil}}, gets: []reply{{err: errGone}}, want: errGone},
		"the pod goes while nobody answers":             {posts: []reply{{errLost, nil}, {errDown, nil}}, gets: []reply{{err: errDown}, {err: errDown}, {err: errGone}}, want: errDown, atMost: time.Second},
		"another pod has its name":                      {posts: []reply{{errTaken, another}}, want: errTaken},
		"a denial is an answer":                         {posts: []reply{{errDenied, nil}}, want: errDenied},
		"so is a server that is too busy":               {posts: []reply{{errBusy, nil}}, want: errBusy},
		"a denial says nothing of an earlier request":   {posts: []reply{{errLost, asAsked}, {errDenied, nil}}, gets: []reply{{err: errDown}, {}}, atMost: time.Second},
		"after a denial the earlier request may be on its way": {
			posts: []reply{{errLost, nil}, {errDenied, nil}}, want: errDenied, atLeast: requestTimeout, atMost: requestTimeout + 2*maxRetry,
		},
		"after a webhook that fails the earlier request may be on its way": {
			posts: []reply{{errLost, nil}, {errWebhook, nil}}, want: errWebhook, atLeast: requestTimeout, atMost: requestTimeout + 2*maxRetry,
		},
		"a store that never answers costs two minutes": {
			posts: []reply{{errBroken, nil}}, want: errBroken, atLeast: requestTimeout, atMost: retryWindow + requestTimeout + 3*maxRetry,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b, p := newBed(t, nil), pod("p", 1).Obj()
			b.Gate = backpressure.NewGate(1)
			server := &apiServer{posts: tc.posts, gets: tc.gets, pod: p}
			server.serve(b)
			b.reserve(t, p)
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				if got := b.Bind(t.Context(), b.state, p, "n").AsError(); !errors.Is(got, tc.want) {
					t.Errorf("Bind: %v, want %v", got, tc.want)
				}
				if took := time.Since(began); took < tc.atLeast || took > tc.atMost {
					t.Errorf("it took %s, want %s to %s", took, tc.atLeast, tc.atMost)
				}
			})
		})
	}
}

// TestCardsStayTakenWhileNobodyTells: the choice is kept, and the binding holds up no other.
func TestCardsStayTakenWhileNobodyTells(t *testing.T) {
	b, p := newBed(t, nil), pod("p", 3).Obj()
	b.Gate = backpressure.NewGate(1)
	server := &apiServer{posts: []reply{{errLost, asAsked}, {errDown, nil}}, gets: []reply{{err: errDown}}, pod: p}
	server.serve(b)
	taken := b.reserve(t, p)
	synctest.Test(t, func(t *testing.T) {
		ctx, lead := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Bind(ctx, b.state, p, "n").AsError() }()
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("the binding ended though nobody told: %v", err)
		default:
		}
		began := time.Now()
		b.Gate.WaitUntilOpen()
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the next pod waits %s for a binding that nobody tells of", waited)
		}
		if choice, ok := b.DeviceCache.ChoiceOf(p.UID); !ok || fmt.Sprint(choice.Assignment) != fmt.Sprint(taken) {
			t.Errorf("the pod has %v, want %v", choice.Assignment, taken)
		}
		if server.posted > 60 {
			t.Errorf("posted %d times in an hour", server.posted)
		}
		lead()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("at the end of the leadership: %v", err)
		}
	})
}

// TestAnswersThatNeedNoSecondLook posts once where the first answer is certain.
func TestAnswersThatNeedNoSecondLook(t *testing.T) {
	for name, answer := range map[string]error{
		"bound": nil, "denied": errDenied, "too busy": errBusy,
		"no such user":   apierrors.NewUnauthorized("who?"),
		"invalid":        apierrors.NewInvalid(schema.GroupKind{Kind: "Binding"}, "p", nil),
		"not understood": apierrors.NewBadRequest("what?"),
		"a webhook that cannot be asked, which comes before all is stored": errWebhook,
		"a webhook that denies it with an error of the server's":           errVetoed,
	} {
		t.Run(name, func(t *testing.T) {
			b, p := newBed(t, nil), pod("p", 1).Annotation(names.AnnotationGPUTypes, "A").Obj()
			server := &apiServer{posts: []reply{{err: answer}}, pod: p}
			server.serve(b)
			b.reserve(t, p)
			b.client.ClearActions()
			if got := b.Bind(t.Context(), b.state, p, "n").AsError(); !errors.Is(got, answer) {
				t.Errorf("Bind: %v, want %v", got, answer)
			}
			if actions := b.client.Actions(); len(actions) != 1 {
				t.Errorf("%d requests, want 1: %v", len(actions), actions)
			}
		})
	}
}
