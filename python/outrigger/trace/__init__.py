"""What a job did and when: events from the library, a timeline of them, and its picture."""
