package server

import (
	"context"
	"slices"
	"sync"
)

// auditNotes collects the objects of a write for its audit line. The path alone does not show them for a POST.
type auditNotes struct {
	mu      sync.Mutex
	objects []string
}

type notesKey struct{}

func withNotes(ctx context.Context, notes *auditNotes) context.Context {
	return context.WithValue(ctx, notesKey{}, notes)
}

// addAuditNote adds an object to the audit line of a request, such as "training/qwen2-sft in team-a".
func addAuditNote(ctx context.Context, object string) {
	if notes, ok := ctx.Value(notesKey{}).(*auditNotes); ok {
		notes.mu.Lock()
		defer notes.mu.Unlock()
		notes.objects = append(notes.objects, object)
	}
}

func (n *auditNotes) allObjects() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.objects)
}
