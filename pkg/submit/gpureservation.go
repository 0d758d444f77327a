package submit

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// ReservationExistsError says that a reservation of the name exists.
type ReservationExistsError struct{ Name string }

func (e *ReservationExistsError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *ReservationExistsError) Message() phrase.Text {
	return phrase.Textf("reservation %q already exists: gpuctl apply changes it", e.Name)
}

// ReservationNotFoundError says that a reservation does not exist.
type ReservationNotFoundError struct{ Name string }

func (e *ReservationNotFoundError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *ReservationNotFoundError) Message() phrase.Text {
	return phrase.Textf("reservation %q not found", e.Name)
}

// ReservationOptions are those of writing reservations.
type ReservationOptions struct {
	// Now is the start of a reservation that begins now.
	Now time.Time
	// DryRun lets the API server check the change, and changes nothing.
	DryRun bool
}

// CreateReservation creates a reservation. If its name is taken, the error is a [ReservationExistsError].
func (c *Client) CreateReservation(ctx context.Context, r *workload.Reservation, opts ReservationOptions) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	var options []client.CreateOption
	if opts.DryRun {
		options = append(options, client.DryRunAll)
	}
	err := c.api.Create(ctx, render.Reservation(r, opts.Now), options...)
	if apierrors.IsAlreadyExists(err) {
		return &ReservationExistsError{Name: r.Name}
	}
	return explainReservation(err, r.Name)
}

// ApplyReservation makes a reservation match its document. A reservation that begins now began when it was created: applying its document again
// changes nothing. If nothing differs, nothing is written.
func (c *Client) ApplyReservation(ctx context.Context, r *workload.Reservation, opts ReservationOptions) (Result, error) {
	for attempt := 1; ; attempt++ {
		result, err := c.applyReservation(ctx, r, opts)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) || attempt == stepAttempts {
			return result, explainReservation(err, r.Name)
		}
	}
}

func (c *Client) applyReservation(ctx context.Context, r *workload.Reservation, opts ReservationOptions) (Result, error) {
	result := Result{Ref: Ref{Name: r.Name, Kind: string(workload.KindReservation)}, Action: ActionUnchanged}
	live, err := c.readReservation(ctx, r.Name)
	if err != nil {
		return result, err
	}
	if live == nil {
		return c.applyNewReservation(ctx, render.Reservation(r, opts.Now), result, opts)
	}
	if err := c.checkPrecondition(live); err != nil {
		return result, err
	}
	made := opts.Now
	if r.From == nil {
		made = live.Spec.From.Time
	}
	after := live.DeepCopy()
	after.Spec = render.Reservation(r, made).Spec
	if equality.Semantic.DeepEqual(live.Spec, after.Spec) {
		return result, nil
	}
	if result.Diff, err = diffReservations(live, after); err != nil {
		return result, err
	}
	result.Action = ActionConfigured
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	var options []client.UpdateOption
	if opts.DryRun {
		options = append(options, client.DryRunAll)
	}
	return result, c.api.Update(ctx, after, options...)
}

func (c *Client) applyNewReservation(ctx context.Context, wanted *names.GPUReservation, result Result, opts ReservationOptions) (Result, error) {
	err := c.checkAbsent()
	if err != nil {
		return result, err
	}
	result.Action = ActionCreated
	if result.Diff, err = diffReservations(nil, wanted); err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	var options []client.CreateOption
	if opts.DryRun {
		options = append(options, client.DryRunAll)
	}
	return result, c.api.Create(ctx, wanted, options...)
}

// DeleteReservation deletes a reservation, which frees its nodes for all. If it does not exist, the error is a [ReservationNotFoundError].
func (c *Client) DeleteReservation(ctx context.Context, name string) error {
	for attempt := 1; ; attempt++ {
		live, err := c.Reservation(ctx, name)
		if err != nil {
			return err
		}
		if err := c.checkPrecondition(live); err != nil {
			return err
		}
		err = c.removeWithPreconditions(ctx, live, c.deletePreconditions(live))
		if !c.shouldRetry(err, attempt) {
			return explainReservation(err, name)
		}
	}
}

// Reservation reads a reservation. If it does not exist, the error is a [ReservationNotFoundError].
func (c *Client) Reservation(ctx context.Context, name string) (*names.GPUReservation, error) {
	live, err := c.readReservation(ctx, name)
	if err == nil && live == nil {
		return nil, &ReservationNotFoundError{Name: name}
	}
	return live, explainReservation(err, name)
}

// readReservation returns nil if the reservation does not exist.
func (c *Client) readReservation(ctx context.Context, name string) (*names.GPUReservation, error) {
	var live names.GPUReservation
	err := c.api.Get(ctx, client.ObjectKey{Name: name}, &live)
	switch {
	case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err): // otherwise the cluster does not know the kind
		return nil, nil
	case err != nil:
		return nil, err
	}
	live.TypeMeta = metav1.TypeMeta{APIVersion: names.SchemeGroupVersion.String(), Kind: "GPUReservation"}
	return &live, nil
}

// explainReservation explains why a reservation cannot be read or written; nil for no error.
func explainReservation(err error, name string) error {
	switch {
	case err == nil:
		return nil
	case isUnknown(err):
		return phrase.Errorf("reservation %s: this cluster knows no GPUReservations: have the administrators apply manifests/crds: %w", name, err)
	case apierrors.IsForbidden(err):
		return phrase.Errorf("reservation %s: only who may write GPUReservations keeps nodes from others, as the role g8s:admin may: %w", name, err)
	}
	return phrase.Errorf("reservation %s: %w", name, err)
}

// diffReservations returns the changes; before is nil for a new reservation.
func diffReservations(before, after *names.GPUReservation) (string, error) {
	shown := func(r *names.GPUReservation) (*unstructured.Unstructured, error) {
		if r == nil {
			return nil, nil
		}
		tree, err := toUnstructured(&names.GPUReservation{TypeMeta: r.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: r.Spec})
		if err == nil {
			unstructured.RemoveNestedField(tree.Object, "status")
		}
		return tree, err
	}
	was, err := shown(before)
	if err != nil {
		return "", err
	}
	is, err := shown(after)
	if err != nil {
		return "", err
	}
	return jobplan.Diff(was, is)
}
