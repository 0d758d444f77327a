package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/server/access"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// reservationResource is the resource of GPUReservations. They are few and rarely queried, so each request reads them from the API server as the
// caller.
var reservationResource = access.Resource{Group: names.GroupName, Resource: "gpureservations"}

type reservationsOutput struct{ Body []inventory.Reservation }

type reservationOutput struct {
	ETagged
	Body inventory.Reservation
}

// ReservationRef names a reservation in a path.
type ReservationRef struct {
	Reservation string `path:"reservationName" maxLength:"253" pattern:"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"`
}

type createReservationInput struct {
	Idempotent
	Body YAMLBody
}

type applyReservationInput struct {
	IfMatch
	Body YAMLBody
}

type deleteReservationInput struct {
	ReservationRef
	IfMatch
}

// ReservationWritten is the result of a write of a reservation.
type ReservationWritten struct {
	Name   string `json:"name"`
	Status string `json:"status" enum:"created,configured,unchanged,valid,deleted"`
	Diff   string `json:"diff,omitempty" doc:"What changed of it, as a unified diff"`
}

type reservationWrittenOutput struct {
	Status int
	Body   ReservationWritten
}

func (s *Server) reservationRoutes() {
	registerRoute(s, route{method: http.MethodGet, path: Root + "/reservations", id: "listReservations", tag: "reservations",
		summary: "List reservations of nodes and maintenance windows, in the order in which they begin",
		detail:  "Who may list the nodes, and the pods of all namespaces, gets the pods in the way of each. A cluster that knows no GPUReservations has none."}, s.listReservations)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/reservations/{reservationName}", id: "getReservation", tag: "reservations",
		summary: "A reservation, and the pods in its way", fails: []int{http.StatusNotFound}}, s.getReservation)
	registerRoute(s, route{method: http.MethodPost, path: Root + "/reservations", id: "createReservation", tag: "reservations", status: http.StatusCreated,
		summary: "Keep nodes for some, or for nobody, from one time to another",
		detail:  "It needs the right to write GPUReservations, which the role g8s:admin has.",
		fails:   []int{http.StatusConflict},
		replies: map[int]*huma.Response{http.StatusOK: jsonReply[ReservationWritten](s, "The reservation is valid, and was not created")}}, s.createReservation)
	registerRoute(s, route{method: http.MethodPut, path: Root + "/reservations", id: "applyReservation", tag: "reservations",
		summary: "Make a reservation what its YAML says",
		detail:  "When nothing differs nothing is written. One that begins now keeps the time at which it was made.",
		fails:   []int{http.StatusConflict},
		replies: map[int]*huma.Response{http.StatusCreated: jsonReply[ReservationWritten](s, "The reservation was created")}}, s.applyReservation)
	registerRoute(s, route{method: http.MethodDelete, path: Root + "/reservations/{reservationName}", id: "deleteReservation", tag: "reservations",
		summary: "Delete a reservation: its nodes are for all again", fails: []int{http.StatusNotFound, http.StatusConflict}}, s.deleteReservation)
}

func (s *Server) listReservations(ctx context.Context, _ *empty) (*reservationsOutput, error) {
	all, err := s.readReservations(ctx)
	return &reservationsOutput{Body: orEmpty(all)}, err
}

func (s *Server) getReservation(ctx context.Context, in *ReservationRef) (*reservationOutput, error) {
	writer, err := newWriter(ctx)
	if err != nil {
		return nil, err
	}
	object, err := writer.Reservation(ctx, in.Reservation)
	if err != nil {
		return nil, err
	}
	one, err := s.withPods(ctx, &snapshot.Snapshot{GPUReservations: []names.GPUReservation{*object}})
	if err != nil {
		return nil, err
	}
	return &reservationOutput{ETagged: ETagged{objectETag(object)}, Body: one[0]}, nil
}

// readReservations returns all reservations, as far as the caller may see them.
func (s *Server) readReservations(ctx context.Context) ([]inventory.Reservation, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := caller.CheckListRight(ctx, "", reservationResource); err != nil {
		return nil, err
	}
	leave, err := acquireSlot(ctx, s.budgets.querying, 1)
	if err != nil {
		return nil, err
	}
	defer leave()
	read, err := snapshot.Read(ctx, caller.Kubernetes, snapshot.GPUReservations().IfAllowed())
	if err != nil {
		return nil, err
	}
	return s.withPods(ctx, read)
}

// withPods adds the pods in the way of reservations from the cache, as far as the caller may see them.
func (s *Server) withPods(ctx context.Context, read *snapshot.Snapshot) ([]inventory.Reservation, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	read.Now = s.options.Now()
	switch err := caller.CheckListRight(ctx, "", nodeResource, podResource); {
	case errors.As(err, new(*access.DeniedError)):
		read.MarkUnread(snapshot.PartPods)
		return inventory.BuildReservations(read), nil
	case err != nil:
		return nil, err
	}
	view, err := s.cache.latestView()
	if err != nil {
		return nil, err
	}
	read.Nodes, read.Pods = view.Objects.Nodes, view.Objects.Pods
	return inventory.BuildReservations(read), nil
}

func (s *Server) parseReservation(ctx context.Context, content string) (document, error) {
	return s.parseOne(ctx, content, "reservation", func(doc document) bool { return doc.Reservation != nil })
}

func (s *Server) createReservation(ctx context.Context, in *createReservationInput) (*reservationWrittenOutput, error) {
	doc, err := s.parseReservation(ctx, in.Body.YAMLContent)
	if err != nil {
		return nil, err
	}
	writer, err := newWriter(ctx)
	if err != nil {
		return nil, err
	}
	addAuditNote(ctx, "reservation/"+doc.Name)
	if err := writer.CreateReservation(ctx, doc.Reservation, submit.ReservationOptions{Now: s.options.Now(), DryRun: in.Body.DryRun}); err != nil {
		return nil, err
	}
	if in.Body.DryRun {
		return reservationAnswer(http.StatusOK, doc.Name, "valid", ""), nil
	}
	return reservationAnswer(http.StatusCreated, doc.Name, string(submit.ActionCreated), ""), nil
}

func (s *Server) applyReservation(ctx context.Context, in *applyReservationInput) (*reservationWrittenOutput, error) {
	doc, err := s.parseReservation(ctx, in.Body.YAMLContent)
	if err != nil {
		return nil, err
	}
	writer, err := newWriter(ctx)
	if err != nil {
		return nil, err
	}
	opts := submit.ReservationOptions{Now: s.options.Now(), DryRun: in.Body.DryRun}
	result, err := in.guardWriter(writer, fmt.Sprintf("reservation %q", doc.Name)).ApplyReservation(ctx, doc.Reservation, opts)
	if err != nil {
		return nil, err
	}
	addAuditNote(ctx, "reservation/"+doc.Name+" "+string(result.Action))
	switch {
	case result.Action == submit.ActionUnchanged: // the right has not been checked yet
		return reservationAnswer(http.StatusOK, doc.Name, string(result.Action), ""), checkChangeRight(ctx, "update", "", reservationResource)
	case in.Body.DryRun:
		return reservationAnswer(http.StatusOK, doc.Name, "valid", result.Diff), nil
	case result.Action == submit.ActionCreated:
		return reservationAnswer(http.StatusCreated, doc.Name, string(result.Action), result.Diff), nil
	}
	return reservationAnswer(http.StatusOK, doc.Name, string(result.Action), result.Diff), nil
}

func (s *Server) deleteReservation(ctx context.Context, in *deleteReservationInput) (*reservationWrittenOutput, error) {
	writer, err := newWriter(ctx)
	if err != nil {
		return nil, err
	}
	addAuditNote(ctx, "reservation/"+in.Reservation)
	if err := in.guardWriter(writer, fmt.Sprintf("reservation %q", in.Reservation)).DeleteReservation(ctx, in.Reservation); err != nil {
		return nil, err
	}
	return reservationAnswer(http.StatusOK, in.Reservation, string(submit.ActionDeleted), ""), nil
}

func reservationAnswer(status int, name, became, diff string) *reservationWrittenOutput {
	return &reservationWrittenOutput{Status: status, Body: ReservationWritten{Name: name, Status: became, Diff: diff}}
}
