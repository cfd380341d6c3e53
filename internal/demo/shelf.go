package demo

import (
	"fmt"
	"strings"
	"sync"
)

// book is one title that the library owns, as its tools show it.
type book struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	Author    string `json:"author"`
	Year      int    `json:"year"`
	Genre     string `json:"genre"`
	Available bool   `json:"available"`
}

// shelf is the library's stock: one copy of each title. It is shared by all who
// call, as a real one is.
type shelf struct {
	mu    sync.RWMutex // guards Available within books
	books []book
}

func newShelf() *shelf {
	return &shelf{books: []book{
		{"b1", "Frankenstein", "Mary Shelley", 1818, "gothic", true},
		{"b2", "Pride and Prejudice", "Jane Austen", 1813, "romance", true},
		{"b3", "Moby-Dick", "Herman Melville", 1851, "adventure", true},
		{"b4", "The Time Machine", "H. G. Wells", 1895, "science fiction", true},
		{"b5", "Dracula", "Bram Stoker", 1897, "gothic", true},
		{"b6", "Twenty Thousand Leagues Under the Seas", "Jules Verne", 1870, "science fiction", true},
		{"b7", "Jane Eyre", "Charlotte Brontë", 1847, "romance", true},
		{"b8", "Treasure Island", "Robert Louis Stevenson", 1883, "adventure", true},
		{"b9", "The Hound of the Baskervilles", "Arthur Conan Doyle", 1902, "mystery", true},
		{"b10", "The Moonstone", "Wilkie Collins", 1868, "mystery", true},
	}}
}

// search returns the books whose title, author or genre holds the query, and how
// many there were before the limit.
func (s *shelf) search(query string, limit int) (found []book, total int) {
	query = strings.ToLower(query)
	s.mu.RLock()
	defer s.mu.RUnlock()
	found = []book{}
	for _, b := range s.books {
		if !strings.Contains(strings.ToLower(b.Title+"\n"+b.Author+"\n"+b.Genre), query) {
			continue
		}
		if total++; len(found) < limit {
			found = append(found, b)
		}
	}
	return found, total
}

func (s *shelf) get(id string) (book, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, b := range s.books {
		if b.ID == id {
			return b, true
		}
	}
	return book{}, false
}

// move lends a book (to false) or takes it back (to true).
func (s *shelf) move(id string, available bool) (book, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.books {
		b := &s.books[i]
		switch {
		case b.ID != id:
			continue
		case b.Available == available && available:
			return book{}, fmt.Errorf("%q is not lent", b.Title)
		case b.Available == available:
			return book{}, fmt.Errorf("%q is already lent; return it first", b.Title)
		}
		b.Available = available
		return *b, nil
	}
	return book{}, noBook(id)
}

func noBook(id string) error { return fmt.Errorf("no book %q; search_books finds the ids", id) }

// ids of all books.
func (s *shelf) ids() []string {
	var out []string
	for i := range s.books { // ids never change, so no lock
		out = append(out, s.books[i].ID)
	}
	return out
}

// genres, each once.
func (s *shelf) genres() []string {
	seen := map[string]bool{}
	var out []string
	for i := range s.books { // genres never change, so no lock
		if g := s.books[i].Genre; !seen[g] {
			seen[g] = true
			out = append(out, g)
		}
	}
	return out
}
