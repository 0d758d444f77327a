// Package serving is what our HTTP servers have in common: requests that are answered, deadlines that end with what they are for,
// connections of which there are not too many, and answers that take no more memory than there is for those that are not read.
package serving
